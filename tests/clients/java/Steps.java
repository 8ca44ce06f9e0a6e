// The steps with Kafka's Java clients; see steps.py.
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class Steps {
    static final int RECORDS = 10;
    static final Duration WAIT = Duration.ofSeconds(20);

    interface Step {
        void run() throws Exception;
    }

    static String servers, prefix, topic, group;
    static TopicPartition first;
    static Admin admin;
    static KafkaConsumer<String, String> member;

    static Properties with(Object... more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        for (int n = 0; n < more.length; n += 2) properties.put(more[n], more[n + 1]);
        return properties;
    }

    static void check(Object found, Object expected) {
        if (!found.equals(expected)) throw new AssertionError(found + " instead of " + expected);
    }

    static List<String> values(String kind) {
        return IntStream.range(0, RECORDS).mapToObj(n -> kind + " " + n).toList();
    }

    static KafkaProducer<String, String> producer(Object... more) {
        return new KafkaProducer<>(with(more), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Object... more) {
        Properties properties = with(more);
        properties.putAll(Map.of("enable.auto.commit", false, "auto.offset.reset", "earliest"));
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    static void send(String kind, Object... more) throws Exception {
        try (KafkaProducer<String, String> producer = producer(more)) {
            RecordHeader header = new RecordHeader("h", "1".getBytes(StandardCharsets.UTF_8));
            for (String value : values(kind))
                producer.send(new ProducerRecord<>(topic, 0, "key", value, List.of(header))).get();
        }
    }

    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long until = System.nanoTime() + WAIT.toNanos();
        while (found.size() < count && System.nanoTime() < until) consumer.poll(Duration.ofSeconds(1)).forEach(found::add);
        return found;
    }

    static List<ConsumerRecord<String, String>> from(long offset, int count, Object... more) {
        try (KafkaConsumer<String, String> consumer = consumer(more)) {
            consumer.assign(List.of(first));
            consumer.seek(first, offset);
            return read(consumer, count);
        }
    }

    static String retention() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    static long offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(first, spec)).partitionResult(first).get().offset();
    }

    static void alterConfigs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        check(retention(), "3600000");
    }

    static void describeTopic() throws Exception {
        check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
            .map(each -> each.isr().size()).toList(), List.of(3, 3, 3));
    }

    static void groupConsume() {
        member = consumer("group.id", group);
        member.subscribe(List.of(topic));
        check(read(member, 3 * RECORDS).size(), 3 * RECORDS);
    }

    static void commit() throws Exception {
        member.commitSync(Map.of(first, new OffsetAndMetadata(7)));
        check(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first).offset(), 7L);
    }

    static void consume() {
        List<String> wanted = Stream.of("plain", "gzip", "idempotent").flatMap(kind -> values(kind).stream()).toList();
        check(from(0, 3 * RECORDS).stream().map(ConsumerRecord::value).toList(), wanted);
    }

    static void headers() {
        ConsumerRecord<String, String> record = from(RECORDS, 1).get(0);
        check(record.key() + new String(record.headers().lastHeader("h").value(), StandardCharsets.UTF_8), "key1");
    }

    static void transaction() throws Exception {
        try (KafkaProducer<String, String> producer = producer("transactional.id", prefix + "-id")) {
            producer.initTransactions();
            for (String value : List.of("aborted", "committed")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                if (value.equals("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        check(from(3 * RECORDS, 1, "isolation.level", "read_committed").get(0).value(), "committed");
    }

    public static void main(String[] arguments) {
        servers = arguments[0];
        prefix = arguments[1];
        topic = prefix + "-topic";
        group = prefix + "-group";
        first = new TopicPartition(topic, 0);
        admin = Admin.create(with());
        System.out.println("version " + AppInfoParser.getVersion());
        step("cluster", () -> check(admin.describeCluster().nodes().get().size(), 3));
        step("create-topic", () -> admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get());
        step("describe-topic", Steps::describeTopic);
        step("describe-configs", () -> check(retention(), "604800000"));
        step("alter-configs", Steps::alterConfigs);
        step("create-partitions", () ->
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get());
        step("produce", () -> send("plain", "enable.idempotence", false));
        step("produce-gzip", () -> send("gzip", "compression.type", "gzip"));
        step("produce-idempotent", () -> send("idempotent"));
        step("list-offsets", () ->
            check(List.of(offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())), List.of(0L, 3L * RECORDS)));
        step("offsets-for-times", () -> check(offset(OffsetSpec.forTimestamp(1)), 0L));
        step("consume", Steps::consume);
        step("headers", Steps::headers);
        step("group-consume", Steps::groupConsume);
        step("commit", Steps::commit);
        step("list-groups", () ->
            check(admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), true));
        step("describe-group", () ->
            check(admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size(), 1));
        step("transaction", Steps::transaction);
        step("delete-group", () -> {
            member.close();
            admin.deleteConsumerGroups(Set.of(group)).all().get();
        });
        step("delete-topic", () -> admin.deleteTopics(List.of(topic)).all().get());
        System.exit(0);
    }

    static void step(String name, Step step) {
        try {
            step.run();
            System.out.println(name + " ok");
        } catch (Throwable error) {
            System.out.println(name + " failed " + String.valueOf(error).replaceAll("\\s+", " "));
        }
    }
}
