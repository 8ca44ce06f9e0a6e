import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Copy a record with Kafka Streams, exactly once, from one topic to another, and read it there.
 *
 * Arguments: the two topics, a folder, and files with the settings of clients; their names are the records' values.
 */
public class SecuredClients {
    public static void main(String[] arguments) throws Exception {
        for (String file : List.of(arguments).subList(3, arguments.length)) {
            Properties settings = new Properties();
            try (Reader reader = new FileReader(file)) {
                settings.load(reader);
            }
            settings.put("application.id", "streams-" + file.hashCode());
            settings.put("state.dir", arguments[2]);
            settings.put("processing.guarantee", "exactly_once_v2");
            settings.put("commit.interval.ms", "200");
            settings.put("auto.offset.reset", "earliest");
            settings.put("group.id", "java-" + file.hashCode());
            settings.put("isolation.level", "read_committed");
            for (String side : List.of("key", "value")) {
                settings.put("default." + side + ".serde", "org.apache.kafka.common.serialization.Serdes$StringSerde");
                settings.put(side + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
                settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            }
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                producer.send(new ProducerRecord<>(arguments[0], file)).get();
            }
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream(arguments[0]).to(arguments[1]);
            boolean found = false;
            try (KafkaStreams streams = new KafkaStreams(builder.build(), settings);
                    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                streams.start();
                consumer.subscribe(List.of(arguments[1]));
                long end = System.nanoTime() + Duration.ofSeconds(90).toNanos();
                while (!found && System.nanoTime() < end) {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                        found |= each.value().equals(file);
                    }
                }
            }
            System.out.println((found ? "ok " : "failed ") + file);
        }
    }
}
