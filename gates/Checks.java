// What the drivers in Java share: named checks, run one after the other, one line each.

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.BooleanSupplier;

class Checks {
    interface Check {
        void run() throws Throwable;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    void add(String name, Check check) {
        checks.put(name, check);
    }

    /** Ends the process. */
    void run() {
        int status = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok " + check.getKey());
            } catch (Throwable problem) {
                System.out.println("FAIL " + check.getKey());
                problem.printStackTrace(System.out);
                status = 1;
            }
        }
        System.exit(status);
    }

    static void equal(Object got, Object expected) {
        if (!Objects.equals(got, expected)) throw new AssertionError(got + " instead of " + expected);
    }

    /** The check throws an error whose text, or whose cause's, contains this. */
    static void fails(String text, Check check) {
        try {
            check.run();
        } catch (Throwable problem) {
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains(text)) return;
            }
            throw new AssertionError(problem + " instead of " + text, problem);
        }
        throw new AssertionError("no error instead of " + text);
    }

    static void until(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + 30_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) throw new AssertionError("takes more than 30 s");
            Thread.sleep(5);
        }
    }
}
