// Jedis over TLS, as `clients` starts it: TlsClient PORT CA CERT KEY. Java reads certificate and key together from the file CERT.p12.

import java.io.FileInputStream;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import javax.net.ssl.*;
import redis.clients.jedis.*;

class TlsClient {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        SSLParameters parameters = new SSLParameters();
        // So that the name in the certificate is checked.
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        var config = DefaultJedisClientConfig.builder()
            .ssl(true)
            .sslSocketFactory(context(args[1], args[2]).getSocketFactory())
            .sslParameters(parameters)
            .build();
        try (Jedis one = new Jedis("localhost", port, config); Jedis other = new Jedis("localhost", port, config)) {
            String large = "x".repeat(3_000_000);
            one.set("large", large);
            check(one.get("large").equals(large));
            Pipeline pipeline = one.pipelined();
            for (int count = 0; count < 1000; count++) pipeline.incr("n");
            check(pipeline.syncAndReturnAll().size() == 1000);
            other.rpush("list", "x");
            check(one.blpop(30, "list").equals(List.of("list", "x")));
        }
        System.out.println("served");
    }

    private static SSLContext context(String authority, String certificate) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (var file = new FileInputStream(authority)) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManager[] keys = null;
        if (!certificate.isEmpty()) {
            char[] password = "secret".toCharArray();
            KeyStore own = KeyStore.getInstance("PKCS12");
            String both = certificate.replaceFirst("\\.pem$", ".p12");
            try (var file = new FileInputStream(Path.of(both).toFile())) {
                own.load(file, password);
            }
            var managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            managers.init(own, password);
            keys = managers.getKeyManagers();
        }
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys, trust.getTrustManagers(), null);
        return context;
    }

    private static void check(boolean is) {
        if (!is) throw new AssertionError();
    }
}
