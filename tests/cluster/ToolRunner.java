import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after the other, each as if it were alone in the JVM.
 *
 * A request is a number of words, then each word as its length and UTF-8 bytes: the tool's standard input, its class,
 * and its arguments. A response is the exit code, then standard output and standard error as lengths and bytes.
 */
public class ToolRunner {
    private static final class Exited extends Error {}

    /** Scala's Console keeps the stream that it found first, so this one stays, and only its buffer changes. */
    private static final class Output extends OutputStream {
        private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            if (!exited) bytes.write(value);
        }

        @Override
        public synchronized void write(byte[] values, int from, int count) {
            if (!exited) bytes.write(values, from, count);
        }

        synchronized void send(DataOutputStream to) throws Exception {
            to.writeInt(bytes.size());
            bytes.writeTo(to);
            bytes.reset();
        }
    }

    /** A tool that catches the exit of its own `exit` call goes on; what it prints and returns then does not count. */
    private static volatile boolean exited;
    private static int code;

    /** The JVM's own map: a tool's hooks run when it has ended. */
    private static Map<Thread, Thread> SHUTDOWN_HOOKS;
    private static List<Thread> OWN_HOOKS;

    private static void exit(int status, String message) {
        if (!exited) code = status;
        exited = true;
        throw new Exited();
    }

    private static void run(List<String> words) throws Exception {
        exited = false;
        code = 0;
        try {
            String[] arguments = words.subList(2, words.size()).toArray(new String[0]);
            System.setIn(new ByteArrayInputStream(words.get(0).getBytes("UTF-8")));
            Class.forName(words.get(1)).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            if (!exited) code = 1;
        } catch (Exception wrong) {
            wrong.printStackTrace();
            code = 1;
        }
        exited = false;
        List<Thread> hooks = new ArrayList<>(SHUTDOWN_HOOKS.keySet());
        hooks.removeAll(OWN_HOOKS);
        for (Thread hook : hooks) {
            SHUTDOWN_HOOKS.remove(hook);
            hook.start();
            hook.join();
        }
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] unused) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream responses = new DataOutputStream(new PrintStream(System.out, false));
        Output out = new Output(), err = new Output();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Field hooks = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        hooks.setAccessible(true);
        SHUTDOWN_HOOKS = (Map<Thread, Thread>) hooks.get(null);
        OWN_HOOKS = new ArrayList<>(SHUTDOWN_HOOKS.keySet());
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        while (true) {
            List<String> words = new ArrayList<>();
            for (int left = requests.readInt(); left > 0; left--) {
                words.add(new String(requests.readNBytes(requests.readInt()), "UTF-8"));
            }
            run(words);
            responses.writeInt(code);
            out.send(responses);
            err.send(responses);
            responses.flush();
        }
    }
}
