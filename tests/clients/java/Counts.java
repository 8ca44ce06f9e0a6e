// Kafka Streams counts words exactly once, is started again, and continues; see steps.py for the printed lines.
import java.nio.file.Files;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

public class Counts {
    static final Duration WAIT = Duration.ofSeconds(60);
    static final int WORDS = 10, ROUNDS = 3;

    static String servers, prefix, lines, counts;
    static String directory;
    static Admin admin;
    static KafkaStreams streams;
    static KafkaConsumer<String, String> reader;
    static Map<String, String> found = new HashMap<>();

    static Properties with(Object... more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        for (int n = 0; n < more.length; n += 2) properties.put(more[n], more[n + 1]);
        return properties;
    }

    static void createTopics() throws Exception {
        admin.createTopics(List.of(new NewTopic(lines, 3, (short) 3), new NewTopic(counts, 3, (short) 3))).all().get();
    }

    static void produce() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(with(), new StringSerializer(), new StringSerializer())) {
            for (int n = 0; n < WORDS * ROUNDS; n++) producer.send(new ProducerRecord<>(lines, "line " + n, "word" + n % WORDS)).get();
        }
    }

    static void start() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("count"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(String::valueOf).to(counts, Produced.with(Serdes.String(), Serdes.String()));
        streams = new KafkaStreams(builder.build(), with("application.id", prefix, "state.dir", directory,
            "processing.guarantee", "exactly_once_v2", "replication.factor", 3));
        streams.start();
    }

    // Start Streams, read until each word has this count, and stop it. Its members do not leave the group by themselves.
    static void count(int times) throws Exception {
        start();
        long until = System.nanoTime() + WAIT.toNanos();
        while (System.nanoTime() < until && !(found.size() == WORDS && Set.copyOf(found.values()).equals(Set.of("" + times))))
            reader.poll(Duration.ofMillis(200)).forEach(record -> found.put(record.key(), record.value()));
        streams.close(WAIT);
        admin.removeMembersFromConsumerGroup(prefix, new RemoveMembersFromConsumerGroupOptions()).all().get();
        if (found.size() != WORDS || !Set.copyOf(found.values()).equals(Set.of("" + times)))
            throw new AssertionError(found + " instead of " + times + " of each word");
    }

    static void delete() throws Exception {
        streams.cleanUp();
        admin.deleteConsumerGroups(List.of(prefix)).all().get();
        admin.deleteTopics(admin.listTopics().names().get().stream().filter(name -> name.startsWith(prefix)).collect(Collectors.toSet())).all().get();
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        prefix = arguments[1];
        lines = prefix + "-lines";
        counts = prefix + "-counts";
        directory = Files.createTempDirectory("streams").toString();
        System.out.println("version " + AppInfoParser.getVersion());
        admin = Admin.create(with());
        reader = new KafkaConsumer<>(with("group.id", prefix + "-reader", "isolation.level", "read_committed",
            "auto.offset.reset", "earliest"), new StringDeserializer(), new StringDeserializer());
        Steps.step("create-topics", Counts::createTopics);
        Steps.step("produce", Counts::produce);
        reader.subscribe(List.of(counts));
        Steps.step("count", () -> count(ROUNDS));
        Steps.step("produce-more", Counts::produce);
        Steps.step("continue", () -> count(2 * ROUNDS));
        reader.close();
        Steps.step("delete", Counts::delete);
        System.exit(0);
    }
}
