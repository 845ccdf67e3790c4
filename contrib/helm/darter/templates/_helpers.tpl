{{- define "darter.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "darter.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "darter.labels" -}}
{{ include "darter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "darter.secret" -}}
{{- .Values.auth.existingSecret | default (include "darter.name" .) }}
{{- end }}

{{- /* The domain of the pods: POD.DOMAIN is what Sentinel and the servers call each other. */}}
{{- define "darter.domain" -}}
{{ include "darter.name" . }}-pods.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "darter.password" -}}
{{- if .Values.auth.enabled }}
valueFrom:
  secretKeyRef: { name: {{ include "darter.secret" . }}, key: password }
{{- else }}
value: ""
{{- end }}
{{- end }}

{{- define "darter.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}
