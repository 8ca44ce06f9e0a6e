import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Print what Java's clients say: of a login with each file of settings, and, with the last file, of operations without
 * rights. Arguments: the topic, and the files.
 */
public class SecuredErrors {
    private static void tell(String what, Callable<Object> step) {
        try {
            System.out.println("> " + what + "\t" + step.call().getClass().getSimpleName().isEmpty());
        } catch (Throwable failure) {
            Throwable cause = failure;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            String text = String.valueOf(cause.getMessage()).lines().findFirst().orElse("");
            System.out.println("> " + what + "\t" + cause.getClass().getName() + ": " + text);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String file : List.of(arguments).subList(1, arguments.length)) {
            settings = new Properties();
            try (Reader reader = new FileReader(file)) {
                settings.load(reader);
            }
            settings.put("default.api.timeout.ms", "5000");
            settings.put("request.timeout.ms", "4000");
            settings.put("max.block.ms", "5000");
            try (Admin admin = Admin.create(settings)) {
                tell(file, () -> admin.listTopics().names().get());
            }
        }
        settings.put("group.id", "g");
        for (String side : List.of("key", "value")) {
            settings.put(side + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        String topic = arguments[0];
        TopicPartition partition = new TopicPartition(topic, 0);
        ConfigResource configs = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET);
        Properties known = settings;
        try (Admin admin = Admin.create(known)) {
            Map<String, Callable<Object>> steps = new LinkedHashMap<>();
            steps.put("describe topic", () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
            steps.put("create topic", () -> admin.createTopics(List.of(new NewTopic("new", 1, (short) 1))).all().get());
            steps.put("delete topic", () -> admin.deleteTopics(List.of(topic)).all().get());
            steps.put("partitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(9))).all().get());
            steps.put("configs", () -> admin.describeConfigs(List.of(configs)).all().get());
            steps.put("alter configs", () -> admin.incrementalAlterConfigs(Map.of(configs, List.of(change))).all().get());
            steps.put("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
            steps.put("delete acls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
            steps.put("group", () -> admin.describeConsumerGroups(List.of("g")).all().get());
            steps.put("offsets", () -> admin.listConsumerGroupOffsets("g").partitionsToOffsetAndMetadata().get());
            steps.put("delete group", () -> admin.deleteConsumerGroups(List.of("g")).all().get());
            steps.put("records", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all().get());
            steps.put("users", () -> admin.describeUserScramCredentials().all().get());
            steps.put("quotas", () -> admin.describeClientQuotas(
                org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities().get());
            steps.put("reassignments", () -> admin.listPartitionReassignments().reassignments().get());
            steps.put("log dirs", () -> admin.describeLogDirs(List.of(0)).allDescriptions().get());
            steps.put("produce", () -> {
                try (KafkaProducer<String, String> producer = new KafkaProducer<>(known)) {
                    return producer.send(new ProducerRecord<>(topic, "value")).get();
                }
            });
            steps.put("consume", () -> {
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(known)) {
                    consumer.subscribe(List.of(topic));
                    return consumer.poll(Duration.ofSeconds(5));
                }
            });
            steps.put("transaction", () -> {
                Properties transactional = new Properties();
                transactional.putAll(known);
                transactional.put("transactional.id", "t");
                try (KafkaProducer<String, String> producer = new KafkaProducer<>(transactional)) {
                    producer.initTransactions();
                    return producer;
                }
            });
            steps.forEach(SecuredErrors::tell);
        }
    }
}
