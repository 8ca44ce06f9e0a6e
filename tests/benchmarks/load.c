/* A load that is not the bottleneck: a producer, a consumer and a mock cluster on librdkafka, one JSON line per run.
 *
 *   load produce BOOTSTRAP TOPIC RECORDS BYTES ACKS RATE [name=value ...]   RATE 0: as fast as it goes, else records/s
 *   load consume BOOTSTRAP TOPIC RECORDS [name=value ...]
 *   load transact BOOTSTRAP TOPIC TRANSACTIONS BYTES RECORDS [name=value ...]   RECORDS in each, committed
 *   load mock TOPIC                                                         prints where it serves, until killed
 *
 * What comes as name=value is librdkafka's configuration, but partitions=N and clients=N: N clients produce or consume in turn, from or to so many partitions.
 * Latencies are from the call to the report of delivery.
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long delivered, failed, partitions = 1, clients = 1;
static double *started, *latency, last;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK) fail(error);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    last = now();
    long number = (long)(size_t)message->_private;
    if (latency) latency[number] = last - started[number];
    failed += message->err != 0;
    delivered++;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char error[256];
    rd_kafka_t *made = rd_kafka_new(type, conf, error, sizeof error);
    if (!made) fail(error);
    return made;
}

static rd_kafka_t **all_clients(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    rd_kafka_t **made = calloc(clients, sizeof *made);
    for (long i = 0; i < clients; i++) made[i] = client(type, rd_kafka_conf_dup(conf));
    return made;
}

static void poll_all(rd_kafka_t **producers, int milliseconds) {
    for (long i = 0; i < clients; i++) rd_kafka_poll(producers[i], i ? 0 : milliseconds);
}

static void send_one(rd_kafka_t *producer, rd_kafka_topic_t *topic, char *record, size_t bytes, long number) {
    int partition = number % partitions;
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, record, bytes, NULL, 0, (void *)(size_t)number)) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail(rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(producer, 5);
    }
}

static void produce(rd_kafka_conf_t *conf, const char *name, long records, size_t bytes, double rate) {
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t **producers = all_clients(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t **topics = calloc(clients, sizeof *topics);
    char *record = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) record[i] = 'a' + (i * 7 + i / 13) % 26;
    for (long i = 0; i < clients; i++) {
        topics[i] = rd_kafka_topic_new(producers[i], name, NULL);
        send_one(producers[i], topics[i], record, bytes, 0); /* connections and metadata are there when it is counted */
    }
    for (long i = 0; i < clients; i++)
        if (rd_kafka_flush(producers[i], 30000) || failed) fail("the first record was not taken");
    delivered = 0;
    if (rate > 0) {
        started = calloc(records, sizeof *started);
        latency = calloc(records, sizeof *latency);
    }
    double begin = now();
    for (long i = 0; i < records; i++) {
        for (double due = begin + i / rate; rate > 0 && now() < due;) {
            poll_all(producers, 0);
            if (due - now() > 2e-4) usleep(100);
        }
        if (rate > 0) started[i] = now();
        send_one(producers[i % clients], topics[i % clients], record, bytes, i);
        if (i % 512 == 0) poll_all(producers, 0);
    }
    while (delivered < records && now() - begin < 120) poll_all(producers, clients > 1 ? 1 : 10);
    printf("{\"records\": %ld, \"failed\": %ld, \"per_second\": %.0f", delivered, failed, delivered / (last - begin));
    if (rate > 0) {
        long first = records / 10, count = records - first; /* the first tenth warms up */
        qsort(latency + first, count, sizeof *latency, ascending);
        printf(", \"p50_ms\": %.3f, \"p99_ms\": %.3f", latency[first + count / 2] * 1e3, latency[first + count * 99 / 100] * 1e3);
    }
    printf("}\n");
    fflush(stdout);
    _exit(failed || delivered < records);
}

static void consume(rd_kafka_conf_t *conf, const char *name, long records) {
    set(conf, "group.id", "nobody");
    set(conf, "enable.auto.commit", "false");
    set(conf, "queued.min.messages", "10000000"); /* else it rests for a second when the broker is faster than we */
    set(conf, "queued.max.messages.kbytes", "2000000");
    rd_kafka_t **consumers = all_clients(RD_KAFKA_CONSUMER, conf);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumers[0]);
    for (long i = 0; i < clients; i++) {
        rd_kafka_poll_set_consumer(consumers[i]);
        if (i) rd_kafka_queue_forward(rd_kafka_queue_get_consumer(consumers[i]), queue); /* all are read from the first's */
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, name, i % partitions)->offset = 0;
        rd_kafka_assign(consumers[i], list);
    }
    static rd_kafka_message_t *batch[10000];
    long seen = 0, before = 0;
    double begin = now(), first = 0, end = 0;
    while (seen < records && now() - begin < 120) {
        long count = rd_kafka_consume_batch_queue(queue, 500, batch, 10000);
        for (long i = 0; i < count; i++) {
            seen += !batch[i]->err;
            rd_kafka_message_destroy(batch[i]);
        }
        if (count > 0) end = now();
        if (!first && seen) first = end, before = seen; /* counted from the first batch on */
    }
    printf("{\"records\": %ld, \"failed\": %d, \"per_second\": %.0f}\n", seen, seen < records, (seen - before) / (end - first));
    fflush(stdout);
    _exit(seen < records);
}

static void done(rd_kafka_error_t *error) {
    if (error) fail(rd_kafka_error_string(error));
}

static void transact(rd_kafka_conf_t *conf, const char *name, long transactions, size_t bytes, long records) {
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, name, NULL);
    char *record = calloc(1, bytes);
    done(rd_kafka_init_transactions(producer, 60000));
    double begin = 0;
    for (long i = -1; i < transactions; i++) { /* the first one makes connections, and is not counted */
        if (!i) begin = now();
        done(rd_kafka_begin_transaction(producer));
        for (long j = 0; j < records; j++) send_one(producer, topic, record, bytes, j);
        done(rd_kafka_commit_transaction(producer, 60000));
    }
    printf("{\"records\": %ld, \"failed\": %ld, \"per_second\": %.2f}\n", delivered, failed, transactions / (now() - begin));
    fflush(stdout);
    _exit(failed != 0);
}

static void mock(rd_kafka_conf_t *conf, const char *name) {
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client(RD_KAFKA_PRODUCER, conf), 1);
    rd_kafka_mock_topic_create(cluster, name, 1, 1);
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    for (;;) pause();
}

static void configure(rd_kafka_conf_t *conf, int count, char **words) {
    for (int i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) fail("what comes last is name=value");
        *value = 0;
        long *counted = !strcmp(words[i], "partitions") ? &partitions : !strcmp(words[i], "clients") ? &clients : NULL;
        if (counted) {
            *counted = atol(value + 1);
            continue;
        }
        set(conf, words[i], value + 1);
    }
}

int main(int count, char **words) {
    if (count < 3) fail("load produce|consume|transact|mock ...: see the head of load.c");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "log_level", "3");
    if (!strcmp(words[1], "mock")) mock(conf, words[2]);
    if (count < 5) fail("load produce|consume|transact BOOTSTRAP TOPIC RECORDS ...");
    set(conf, "bootstrap.servers", words[2]);
    if (!strcmp(words[1], "consume")) {
        configure(conf, count - 5, words + 5);
        consume(conf, words[3], atol(words[4]));
    }
    if (!strcmp(words[1], "transact")) {
        if (count < 7) fail("load transact BOOTSTRAP TOPIC TRANSACTIONS BYTES RECORDS ...");
        configure(conf, count - 7, words + 7);
        transact(conf, words[3], atol(words[4]), atol(words[5]), atol(words[6]));
    }
    if (strcmp(words[1], "produce") || count < 8) fail("load produce BOOTSTRAP TOPIC RECORDS BYTES ACKS RATE ...");
    set(conf, "acks", words[6]);
    if (atof(words[7]) == 0) {
        set(conf, "queue.buffering.max.messages", "500000");
        set(conf, "queue.buffering.max.kbytes", "1000000");
    }
    configure(conf, count - 8, words + 8);
    produce(conf, words[3], atol(words[4]), atol(words[5]), atof(words[7]));
}
