import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Permission;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

/**
 * Kafka's own log cleaner and log, without a broker.
 *
 * The arguments are the bytes of the offset map, SNAPSHOTS, the folders of logs that are cleaned, separated by commas,
 * and folders of other logs. A line for each cleaned log has the CPU seconds of the cleaning, the records and bytes that
 * were read, and the bytes that were written. SNAPSHOTS is "-", or a folder that gets a copy of the first cleaned log's
 * folder before each change of a file's name and at the end. Each other log is opened as after a kill; a line has its
 * log start offset, its log end offset, and the offsets of its records.
 */
public class ApacheCleaner {
    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);

    private static UnifiedLog open(File folder) {
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact", "segment.bytes", System.getProperty("segment.bytes", "1073741824")));
        return UnifiedLog.apply(folder, config, 0L, 0L, SCHEDULER, new BrokerTopicStats(false), Time.SYSTEM, 900000,
            new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(1), false, Option.empty(),
            false, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    private static void load(File folder) {
        UnifiedLog log = open(folder);
        StringBuilder line = new StringBuilder(log.logStartOffset() + " " + log.logEndOffset());
        for (LogSegment segment : log.logSegments()) {
            for (Record record : segment.log().records()) line.append(" ").append(record.offset());
        }
        System.out.println(line);
        log.close();
    }

    private static void clean(int mapBytes, File folder) throws Exception {
        UnifiedLog log = open(folder);
        log.updateHighWatermark(log.logEndOffset());
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "throttler", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes, "MD5"), 262144, 1048588, 0.9, throttler,
            Time.SYSTEM, partition -> BoxedUnit.UNIT);
        ThreadMXBean cpu = ManagementFactory.getThreadMXBean();
        long began = cpu.getCurrentThreadCpuTime();
        Tuple2<Object, CleanerStats> done = cleaner.clean(new LogToClean(
            new TopicPartition("t", 0), log, 0L, log.activeSegment().baseOffset(), false));
        double seconds = (cpu.getCurrentThreadCpuTime() - began) / 1e9;
        CleanerStats stats = done._2();
        System.out.println(seconds + " " + stats.messagesRead() + " " + stats.bytesRead() + " " + stats.bytesWritten());
    }

    /** Java asks it before a file is renamed or removed. */
    @SuppressWarnings("removal")
    private static final class Snapshots extends SecurityManager {
        private final Path folder, target;
        private int count;

        Snapshots(File folder, File target) {
            this.folder = folder.toPath();
            this.target = target.toPath();
        }

        synchronized void copy() {
            Path copy = target.resolve(Integer.toString(count++)).resolve(folder.getFileName());
            try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
                Files.createDirectories(copy);
                for (Path file : files) Files.copy(file, copy.resolve(file.getFileName()));
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void checkPermission(Permission permission) {}

        @Override
        public void checkWrite(String file) {
            boolean renames = false;
            for (StackTraceElement frame : Thread.currentThread().getStackTrace()) {
                renames |= frame.getMethodName().equals("move") && frame.getClassName().equals("java.nio.file.Files");
            }
            if (renames && file.startsWith(folder.toString())) copy();
        }
    }

    @SuppressWarnings("removal")
    public static void main(String[] args) throws Exception {
        SCHEDULER.startup();
        String[] folders = args[2].split(",");
        Snapshots snapshots = args[1].equals("-") ? null : new Snapshots(new File(folders[0]), new File(args[1]));
        System.setSecurityManager(snapshots);
        for (String folder : folders) clean(Integer.parseInt(args[0]), new File(folder));
        System.setSecurityManager(null);
        if (snapshots != null) snapshots.copy();
        for (int at = 3; at < args.length; at++) load(new File(args[at]));
        Runtime.getRuntime().halt(0);
    }
}
