------------------------------ MODULE Regions ------------------------------
(***************************************************************************)
(* Two regions, a and b. A SPACE is all databases of one region: the whole *)
(* of its job systems. A space has one owner at a time; the other region   *)
(* has a standby copy that may lag. A region owns databases, not elements. *)
(*                                                                         *)
(* A region is taken as one durable history of each space: what happens    *)
(* between the servers of a region is the business of Groups, not of this. *)
(* A history is a sequence of units; the state of the job systems is what  *)
(* the units make of it (here: which jobs wait). One unit names its term   *)
(* and the region that began that term.                                    *)
(*                                                                         *)
(*   push j     a job was added           done j   a worker has run it     *)
(*   term       a term begins             handed   what a losing region    *)
(*                                                 added and had not run   *)
(*                                                 ("late" jobs) was added *)
(* Running a job and the unit done are one step: a job taken with a lease. *)
(* Plain = TRUE splits them, as BRPOP does (see the config "plain").       *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Spaces,      \* {"a"} or {"a","b"}: the space of region a, of region b
          Jobs,        \* small numbers
          JobsOfB,     \* the jobs of space b; the others are of space a
          RemoteJobs,  \* jobs whose push waits for the other region (region-ack remote)
          MaxTerm, MaxCrash, MaxGone, MaxTail,
          Plain, Mutant

R == {"a", "b"}
Other(r) == IF r = "a" THEN "b" ELSE "a"
SpaceOf(j) == IF j \in JobsOfB THEN "b" ELSE "a"
FirstTerm(s) == IF s = "a" THEN 1 ELSE 2
\* Terms of region a are odd, those of b are even: two regions that cannot
\* talk never begin the same term.
Mine(r, t) == IF r = "a" THEN t % 2 = 1 ELSE t % 2 = 0
NextTerm(r, t) == IF Mutant = "sameTerm" THEN t + 1
                  ELSE IF Mine(r, t + 1) THEN t + 1 ELSE t + 2

VARIABLES up,       \* is the region up
          link,     \* is the link between the regions up
          hist,     \* hist[r][s]: what region r has of space s on its disks
          known,    \* known[r][s]: the newest term r has heard of (on disk)
          lead,     \* lead[r][s]: the newest term r itself began (on disk)
          serving,  \* does r answer clients of s
          ack,      \* "no", "sent" (waits for the other region), "local", "remote"
          busy,     \* Plain only: jobs popped, worker still running
          runs,     \* how often a job was run (ghost)
          counted,  \* repeats the system has counted, by job
          holder,   \* the region whose disks a locally acknowledged job depends on (ghost)
          gone,     \* regions that lost their disks (ghost)
          crashes, tails

vars == <<up, link, hist, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>

Unit(k, js, t, r, of) == [k |-> k, js |-> js, t |-> t, by |-> r, of |-> of]

RECURSIVE WaitFrom(_, _, _)
WaitFrom(i, h, w) ==
  IF i > Len(h) THEN w
  ELSE WaitFrom(i + 1, h, IF h[i].k \in {"push", "handed"} THEN w \cup h[i].js
                          ELSE IF h[i].k = "done" THEN w \ h[i].js ELSE w)
Waiting(h) == WaitFrom(1, h, {})

Done(h) == UNION {h[i].js : i \in {n \in 1..Len(h) : h[n].k = "done"}}
CopyTerm(h) == IF h = <<>> THEN 0 ELSE h[Len(h)].t
Prefix(g, h) == Len(g) <= Len(h) /\ g = SubSeq(h, 1, Len(g))
\* Length of the common beginning of two histories. The server finds it from
\* the starts of terms, as Kafka's followers do.
RECURSIVE ForkFrom(_, _, _)
ForkFrom(n, g, h) == IF n < Len(g) /\ n < Len(h) /\ g[n + 1] = h[n + 1]
                     THEN ForkFrom(n + 1, g, h) ELSE n
Fork(g, h) == ForkFrom(0, g, h)
Tail2(h, n) == SubSeq(h, n + 1, Len(h))

Init ==
  /\ up = [r \in R |-> TRUE] /\ link = TRUE
  /\ hist = [r \in R |-> [s \in Spaces |-> <<Unit("term", {}, FirstTerm(s), s, 0)>>]]
  /\ known = [r \in R |-> [s \in Spaces |-> FirstTerm(s)]]
  /\ lead = [r \in R |-> [s \in Spaces |-> IF r = s THEN FirstTerm(s) ELSE 0]]
  /\ serving = [r \in R |-> [s \in Spaces |-> r = s]]
  /\ ack = [j \in Jobs |-> "no"] /\ busy = [r \in R |-> {}]
  /\ runs = [j \in Jobs |-> 0] /\ counted = [j \in Jobs |-> 0]
  /\ holder = [j \in Jobs |-> "none"] /\ gone = {} /\ crashes = 0 /\ tails = 0

Append1(r, s, u) == hist' = [hist EXCEPT ![r][s] = Append(@, u)]
Talk == link /\ up["a"] /\ up["b"]

(* ------------------------------ clients ------------------------------- *)

Push(r, s, j) ==
  /\ up[r] /\ serving[r][s] /\ SpaceOf(j) = s /\ holder[j] = "none"
  /\ Append1(r, s, Unit("push", {j}, known[r][s], r, 0))
  /\ holder' = [holder EXCEPT ![j] = r]
  /\ ack' = [ack EXCEPT ![j] = IF j \in RemoteJobs THEN "sent" ELSE "local"]
  /\ UNCHANGED <<up, link, known, lead, serving, busy, runs, counted, gone, crashes, tails>>

\* The other region confirms units of its own term only.
AckRemote(r, s, j) ==
  /\ Talk /\ serving[r][s] /\ SpaceOf(j) = s /\ ack[j] = "sent" /\ holder[j] = r
  /\ \/ /\ known[Other(r)][s] = known[r][s]
        /\ \E i \in 1..Len(hist[Other(r)][s]) :
              hist[Other(r)][s][i].k = "push" /\ j \in hist[Other(r)][s][i].js
     \/ Mutant = "ackOld" /\ known[Other(r)][s] > known[r][s]
  /\ ack' = [ack EXCEPT ![j] = "remote"]
  /\ UNCHANGED <<up, link, hist, known, lead, serving, busy, runs, counted, holder, gone, crashes, tails>>

Work(r, s, j) ==
  /\ up[r] /\ serving[r][s] /\ SpaceOf(j) = s /\ j \in Waiting(hist[r][s])
  /\ Append1(r, s, Unit("done", {j}, known[r][s], r, 0))
  /\ IF Plain THEN busy' = [busy EXCEPT ![r] = @ \cup {j}] /\ runs' = runs
              ELSE runs' = [runs EXCEPT ![j] = @ + 1] /\ busy' = busy
  /\ UNCHANGED <<up, link, known, lead, serving, ack, counted, holder, gone, crashes, tails>>

Finish(r, j) ==
  /\ Plain /\ up[r] /\ j \in busy[r]
  /\ busy' = [busy EXCEPT ![r] = @ \ {j}] /\ runs' = [runs EXCEPT ![j] = @ + 1]
  /\ UNCHANGED <<up, link, hist, known, lead, serving, ack, counted, holder, gone, crashes, tails>>

(* ------------------------------- the link ------------------------------ *)

\* One unit goes over, in either direction: the owner feeds its standby, and
\* a standby gives back what a restarted owner lost of its own term.
Ship(f, s) ==
  LET t == Other(f) IN
  /\ Talk /\ known[f][s] = known[t][s] /\ ~serving[t][s]
  /\ Prefix(hist[t][s], hist[f][s]) /\ Len(hist[t][s]) < Len(hist[f][s])
  /\ Append1(t, s, hist[f][s][Len(hist[t][s]) + 1])
  /\ UNCHANGED <<up, link, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>

\* Mutant: a stream of an old term is applied to the copy of a newer one.
ShipOld(f, s) ==
  LET t == Other(f)
      n == Fork(hist[t][s], hist[f][s]) IN
  /\ Mutant = "acceptOld" /\ Talk /\ serving[f][s] /\ known[f][s] < known[t][s]
  /\ n < Len(hist[f][s]) /\ ~(hist[f][s][n + 1] \in {hist[t][s][i] : i \in 1..Len(hist[t][s])})
  /\ Append1(t, s, hist[f][s][n + 1])
  /\ UNCHANGED <<up, link, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>

\* The regions tell each other their terms. Who hears of a newer one stops
\* serving, before anything else.
Hello(r, s) ==
  /\ Talk /\ known[r][s] < known[Other(r)][s]
  /\ known' = [known EXCEPT ![r][s] = known[Other(r)][s]]
  /\ serving' = [serving EXCEPT ![r][s] = FALSE]
  /\ UNCHANGED <<up, link, hist, lead, ack, busy, runs, counted, holder, gone, crashes, tails>>

\* Region l has units that the winner w lacks. What l added and had not run
\* is late: w adds it, in one unit that says whose end it was. What l ran of
\* jobs that were there at the fork runs again at w, or ran at both: counted.
Hand(l, s) ==
  LET w == Other(l)
      n == Fork(hist[l][s], hist[w][s])
      base == Waiting(SubSeq(hist[l][s], 1, n))
      end == Tail2(hist[l][s], n)
      late == CASE Mutant = "lateByAbsence" -> Waiting(hist[l][s]) \ Waiting(hist[w][s])
                [] Mutant = "lateAll" ->
                     UNION {end[i].js : i \in {m \in 1..Len(end) : end[m].k \in {"push", "handed"}}}
                [] OTHER -> Waiting(hist[l][s]) \ base
      again == IF Mutant = "countAll" THEN Done(end) ELSE Done(end) \cap base
      mark == CopyTerm(hist[l][s])
  IN
  /\ Talk /\ serving[w][s] /\ ~Prefix(hist[l][s], hist[w][s])
  /\ \/ known[l][s] = known[w][s]
     \/ Mutant = "handWhileServing" /\ known[l][s] < known[w][s]
  /\ Mutant = "handTwice" \/ ~\E i \in 1..Len(hist[w][s]) :
        hist[w][s][i].k = "handed" /\ hist[w][s][i].of = mark
  /\ Mutant = "handTwice" => Cardinality({i \in 1..Len(hist[w][s]) : hist[w][s][i].k = "handed"}) < 2
  /\ Append1(w, s, Unit("handed", late, known[w][s], w, mark))
  /\ counted' = [j \in Jobs |-> counted[j] + IF j \in again THEN 1 ELSE 0]
  /\ UNCHANGED <<up, link, known, lead, serving, ack, busy, runs, holder, gone, crashes, tails>>

\* Only when the winner has the late jobs does l drop its end and follow.
Adopt(l, s) ==
  LET w == Other(l)
      n == Fork(hist[l][s], hist[w][s])
      end == Tail2(hist[l][s], n)
  IN
  /\ Talk /\ known[l][s] = known[w][s] /\ ~serving[l][s] /\ ~Prefix(hist[l][s], hist[w][s])
  /\ lead[w][s] = known[w][s]
  /\ \/ \E i \in 1..Len(hist[w][s]) :
           hist[w][s][i].k = "handed" /\ hist[w][s][i].of = CopyTerm(hist[l][s])
     \/ Mutant = "adoptNoHand"
  /\ hist' = [hist EXCEPT ![l][s] = SubSeq(@, 1, n)]
  /\ holder' = [j \in Jobs |->
        IF \E i \in 1..Len(end) : end[i].k \in {"push", "handed"} /\ j \in end[i].js THEN w ELSE holder[j]]
  /\ UNCHANGED <<up, link, known, lead, serving, ack, busy, runs, counted, gone, crashes, tails>>

Cut  == link /\ link' = FALSE
        /\ UNCHANGED <<up, hist, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>
Heal == ~link /\ link' = TRUE
        /\ UNCHANGED <<up, hist, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>

(* ------------------------------- people -------------------------------- *)

\* REGION TAKEOVER: a region that does not serve begins a new term. It asks
\* nothing of the other region, which may be lost, or alive behind a cut link.
\* Its copy must be one of the newest term it knows. Also the way to start
\* a region alone when the other one cannot be heard.
Takeover(r, s) ==
  LET t == NextTerm(r, known[r][s]) IN
  /\ up[r] /\ ~serving[r][s] /\ hist[r][s] # <<>> /\ t <= MaxTerm
  /\ CopyTerm(hist[r][s]) = known[r][s] \/ Mutant = "takeoverStale"
  /\ Append1(r, s, Unit("term", {}, t, r, 0))
  /\ known' = [known EXCEPT ![r][s] = t] /\ lead' = [lead EXCEPT ![r][s] = t]
  /\ serving' = [serving EXCEPT ![r][s] = TRUE]
  /\ UNCHANGED <<up, link, ack, busy, runs, counted, holder, gone, crashes, tails>>

\* REGION PAUSE, and the first half of REGION RETURN: the owner stops. The
\* standby then takes over, best when it has everything.
Pause(r, s) ==
  /\ up[r] /\ serving[r][s] /\ serving' = [serving EXCEPT ![r][s] = FALSE]
  /\ UNCHANGED <<up, link, hist, known, lead, ack, busy, runs, counted, holder, gone, crashes, tails>>

(* --------------------------- loss and return --------------------------- *)

Crash(r) ==
  /\ up[r] /\ crashes < MaxCrash /\ crashes' = crashes + 1
  /\ up' = [up EXCEPT ![r] = FALSE]
  /\ serving' = [serving EXCEPT ![r] = [s \in Spaces |-> FALSE]]
  /\ busy' = [busy EXCEPT ![r] = {}]
  /\ known' = IF Mutant = "heardForgotten"
              THEN [known EXCEPT ![r] = [s \in Spaces |-> CopyTerm(hist[r][s])]] ELSE known
  /\ UNCHANGED <<link, hist, lead, ack, runs, counted, holder, gone, tails>>

\* everysec: the owner comes back without its last unit, which the other
\* region has. (A unit that neither has is the known price of everysec.) Such
\* a crash counts as disks that did not come back: not both in one run.
TwoLosses == Mutant = "twoLosses"
LoseTail(r, s) ==
  LET h == hist[r][s] IN
  /\ ~up[r] /\ tails < MaxTail /\ tails' = tails + 1 /\ (gone = {} \/ TwoLosses)
  /\ Len(h) > 1
  /\ \/ Prefix(h, hist[Other(r)][s]) /\ h[Len(h)].k \in {"push", "done"}
     \/ Mutant = "handedNotDurable" /\ h[Len(h)].k = "handed"
  /\ hist' = [hist EXCEPT ![r][s] = SubSeq(h, 1, Len(h) - 1)]
  /\ holder' = [j \in Jobs |-> IF j \in h[Len(h)].js THEN Other(r) ELSE holder[j]]
  /\ UNCHANGED <<up, link, known, lead, serving, ack, busy, runs, counted, gone, crashes>>

DisksGone(r) ==
  /\ ~up[r] /\ r \notin gone /\ Cardinality(gone) < MaxGone /\ (tails = 0 \/ TwoLosses)
  /\ gone' = gone \cup {r}
  /\ hist' = [hist EXCEPT ![r] = [s \in Spaces |-> <<>>]]
  /\ IF Mutant = "emptyLeads"     \* the node's name is taken for its data
     THEN known' = known /\ lead' = lead
     ELSE /\ known' = [known EXCEPT ![r] = [s \in Spaces |-> 0]]
          /\ lead' = [lead EXCEPT ![r] = [s \in Spaces |-> 0]]
  /\ UNCHANGED <<up, link, serving, ack, busy, runs, counted, holder, crashes, tails>>

Return(r) ==
  /\ ~up[r] /\ up' = [up EXCEPT ![r] = TRUE]
  /\ UNCHANGED <<link, hist, known, lead, serving, ack, busy, runs, counted, holder, gone, crashes, tails>>

\* A region that came back, or was paused, serves its old term again only
\* after the other region said that it knows of no newer one and has no more
\* of this one. An empty region's word does not count.
Start(r, s) ==
  LET o == Other(r) IN
  /\ up[r] /\ ~serving[r][s] /\ lead[r][s] > 0 /\ lead[r][s] = known[r][s]
  /\ CopyTerm(hist[r][s]) = known[r][s] \/ Mutant = "emptyLeads"
  /\ \/ Mutant = "startBlind"
     \/ /\ Talk /\ known[o][s] <= known[r][s]
        /\ known[o][s] > 0 \/ Mutant = "emptyLeads"
        /\ \/ CopyTerm(hist[o][s]) # known[r][s] /\ Mutant # "startNeedsAll"
           \/ Prefix(hist[o][s], hist[r][s])
           \/ Mutant \in {"noFetchBack", "emptyLeads"}
  /\ serving' = [serving EXCEPT ![r][s] = TRUE]
  /\ UNCHANGED <<up, link, hist, known, lead, ack, busy, runs, counted, holder, gone, crashes, tails>>

Next ==
  \/ Cut \/ Heal
  \/ \E r \in R : Crash(r) \/ DisksGone(r) \/ Return(r) \/ \E j \in Jobs : Finish(r, j)
  \/ \E r \in R, s \in Spaces :
        \/ Ship(r, s) \/ ShipOld(r, s) \/ Hello(r, s) \/ Hand(r, s) \/ Adopt(r, s)
        \/ Takeover(r, s) \/ Pause(r, s) \/ Start(r, s) \/ LoseTail(r, s)
        \/ \E j \in Jobs : Push(r, s, j) \/ AckRemote(r, s, j) \/ Work(r, s, j)

Spec == Init /\ [][Next]_vars

\* For liveness: link and regions come back, who may start starts, and what
\* can go on goes on, though people may cut, pause and take over meanwhile.
Progress == \E r \in R, s \in Spaces :
              \/ Ship(r, s) \/ Hello(r, s) \/ Hand(r, s) \/ Adopt(r, s)
              \/ \E j \in Jobs : Work(r, s, j)
LiveSpec == /\ Spec /\ WF_vars(Heal) /\ WF_vars(\E r \in R : Return(r))
            /\ SF_vars(\E r \in R, s \in Spaces : Start(r, s)) /\ SF_vars(Progress)

(* ------------------------------ promises ------------------------------- *)

\* Never two owners of a space in the same term, now or in any history.
OneOwner ==
  /\ \A s \in Spaces : serving["a"][s] /\ serving["b"][s] => known["a"][s] # known["b"][s]
  /\ \A s \in Spaces : \A i \in DOMAIN hist["a"][s], k \in DOMAIN hist["b"][s] :
       hist["a"][s][i].t = hist["b"][s][k].t => hist["a"][s][i].by = hist["b"][s][k].by

\* Who serves began the newest term that it has heard of.
ServesItsOwnTerm == \A r \in R, s \in Spaces : serving[r][s] => lead[r][s] = known[r][s]

\* Same place and same term: same history up to there.
LogMatching ==
  \A s \in Spaces : LET n == Fork(hist["a"][s], hist["b"][s]) IN
    \A i \in DOMAIN hist["a"][s] : i > n /\ i <= Len(hist["b"][s])
      => hist["a"][s][i].t # hist["b"][s][i].t

\* No acknowledged job is lost or dropped in silence: it has run, or it waits
\* in a history, or it was acknowledged by one region only and that region's
\* disks are gone.
NoLoss ==
  \A j \in Jobs : ack[j] \in {"local", "remote"} /\ runs[j] = 0
    => \/ \E r \in R : j \in Waiting(hist[r][SpaceOf(j)]) \/ j \in busy[r]
       \/ ack[j] = "local" /\ holder[j] \in gone

\* Repeats happen only where both regions ran a job that was there at the
\* fork, and they are counted when the regions have met. No disks lost.
Fork2(s) == Fork(hist["a"][s], hist["b"][s])
BothEnds(j) == LET s == SpaceOf(j) IN
  j \in Done(Tail2(hist["a"][s], Fork2(s))) \cap Done(Tail2(hist["b"][s], Fork2(s)))
RepeatsBounded ==
  gone = {} => \A j \in Jobs : runs[j] <= 1 + counted[j] + IF BothEnds(j) THEN 1 ELSE 0

Settled(s) ==
  /\ Talk /\ hist["a"][s] = hist["b"][s] /\ known["a"][s] = known["b"][s]
  /\ \E r \in R : serving[r][s]
  /\ Waiting(hist["a"][s]) = {}
\* When all is settled every job ran once, plus exactly the counted repeats.
ExactWhenSettled ==
  \A s \in Spaces : Settled(s) /\ gone = {} /\ ~Plain =>
    \A j \in Jobs : SpaceOf(j) = s /\ holder[j] # "none" => runs[j] = 1 + counted[j]

\* Without takeover there are no repeats.
NoTakeoverNoRepeat ==
  gone = {} /\ (\A s \in Spaces, r \in R : known[r][s] <= FirstTerm(s)) => \A j \in Jobs : runs[j] <= 1

\* A region that begins to serve an old term of its own does so only while
\* the other region knows of no newer one.
NeverStartsOldTerm ==
  [][\A r \in R, s \in Spaces :
       ~serving[r][s] /\ serving'[r][s] /\ known'[r][s] = known[r][s]
         => known[r][s] >= known[Other(r)][s]]_vars

\* With LiveSpec and no disks lost: every acknowledged job runs in the end,
\* and the two regions end with the same history.
AckedJobsRun == \A j \in Jobs : (ack[j] = "local") ~> (runs[j] > 0)
Converges == <>[](hist["a"] = hist["b"])

\* Witnesses: these must be VIOLATED, else the model does nothing.
NeverLate == \A s \in Spaces, r \in R : \A i \in 1..Len(hist[r][s]) :
                hist[r][s][i].k # "handed" \/ hist[r][s][i].js = {}
NeverRepeat == \A j \in Jobs : counted[j] = 0
NeverBothSides == \A s \in Spaces : ~(serving["a"][s] /\ serving["b"][s])
NeverBack == \A s \in Spaces : ~(Settled(s) /\ \E j \in Jobs : counted[j] > 0 /\ SpaceOf(j) = s)
=============================================================================
