// The steps with franz-go.
package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"clients/steps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	servers, prefix = strings.Split(os.Args[1], ","), os.Args[2]
	topic, group    = prefix + "-topic", prefix + "-group"
	ctx             = context.Background()
	member          *kgo.Client
)

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		panic(err)
	}
	return made
}

var admin = kadm.NewClient(client())

func send(kind string, options ...kgo.Opt) error {
	producer := client(options...)
	defer producer.Close()
	var records []*kgo.Record
	for _, value := range steps.Values(kind) {
		headers := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}
		records = append(records, &kgo.Record{Topic: topic, Key: []byte("key"), Value: []byte(value), Headers: headers})
	}
	return producer.ProduceSync(ctx, records...).FirstErr()
}

func read(consumer *kgo.Client, count int) (found []*kgo.Record, err error) {
	limited, cancel := context.WithTimeout(ctx, steps.Wait)
	defer cancel()
	for len(found) < count && err == nil {
		fetches := consumer.PollFetches(limited)
		found, err = append(found, fetches.Records()...), fetches.Err()
	}
	return found, err
}

func from(offset int64, count int, options ...kgo.Opt) ([]*kgo.Record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}
	consumer := client(append(options, kgo.ConsumePartitions(start))...)
	defer consumer.Close()
	return read(consumer, count)
}

func retention() string {
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(described) != 1 {
		return "?"
	}
	for _, config := range described[0].Configs {
		if config.Key == "retention.ms" {
			return config.MaybeValue()
		}
	}
	return "?"
}

func offset(listed kadm.ListedOffsets, err error, expected int64) error {
	found, _ := listed.Lookup(topic, 0)
	return errors.Join(err, found.Err, steps.Check(found.Offset, expected))
}

func main() {
	steps.Run("github.com/twmb/franz-go", map[string]func() error{
		"cluster": func() error {
			metadata, err := admin.BrokerMetadata(ctx)
			return errors.Join(err, steps.Check(len(metadata.Brokers), 3))
		},
		"create-topic": func() error {
			_, err := admin.CreateTopic(ctx, 3, 3, nil, topic)
			return err
		},
		"describe-topic": func() error {
			topics, err := admin.ListTopics(ctx, topic)
			var isrs []int
			for _, partition := range topics[topic].Partitions.Sorted() {
				isrs = append(isrs, len(partition.ISR))
			}
			return errors.Join(err, steps.Check(isrs, []int{3, 3, 3}))
		},
		"describe-configs": func() error { return steps.Check(retention(), "604800000") },
		"alter-configs": func() error {
			value := "3600000"
			changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
			altered, err := admin.AlterTopicConfigs(ctx, changes, topic)
			for _, each := range altered {
				err = errors.Join(err, each.Err)
			}
			return errors.Join(err, steps.Check(retention(), value))
		},
		"create-partitions": func() error {
			grown, err := admin.UpdatePartitions(ctx, 4, topic)
			return errors.Join(err, grown.Error())
		},
		"produce":            func() error { return send("plain", kgo.DisableIdempotentWrite()) },
		"produce-gzip":       func() error { return send("gzip", kgo.ProducerBatchCompression(kgo.GzipCompression())) },
		"produce-idempotent": func() error { return send("idempotent") },
		"list-offsets": func() error {
			first, one := admin.ListStartOffsets(ctx, topic)
			last, other := admin.ListEndOffsets(ctx, topic)
			return errors.Join(offset(first, one, 0), offset(last, other, 3*steps.Records))
		},
		"offsets-for-times": func() error {
			listed, err := admin.ListOffsetsAfterMilli(ctx, 1, topic)
			return offset(listed, err, 0)
		},
		"consume": func() error {
			records, err := from(0, 3*steps.Records)
			var values []string
			for _, record := range records {
				values = append(values, string(record.Value))
			}
			return errors.Join(err, steps.Check(values, steps.All()))
		},
		"headers": func() error {
			records, err := from(steps.Records, 1)
			if err != nil {
				return err
			}
			header := records[0].Headers[0]
			found := []string{string(records[0].Key), header.Key, string(header.Value)}
			return steps.Check(found, []string{"key", "h", "1"})
		},
		"group-consume": func() error {
			start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
			member = client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), start)
			_, err := read(member, 3*steps.Records)
			return err
		},
		"commit": func() error {
			wanted := map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 7}}}
			member.CommitOffsetsSync(ctx, wanted, nil)
			committed, err := admin.FetchOffsets(ctx, group)
			found, _ := committed.Lookup(topic, 0)
			return errors.Join(err, steps.Check(found.At, 7))
		},
		"list-groups": func() error {
			listed, err := admin.ListGroups(ctx)
			return errors.Join(err, steps.Check(slices.Contains(listed.Groups(), group), true))
		},
		"describe-group": func() error {
			described, err := admin.DescribeGroups(ctx, group)
			return errors.Join(err, steps.Check(len(described[group].Members), 1))
		},
		"transaction": func() error {
			producer := client(kgo.TransactionalID(prefix + "-id"))
			defer producer.Close()
			var failed error
			for _, each := range []struct {
				value  string
				commit kgo.TransactionEndTry
			}{{"aborted", kgo.TryAbort}, {"committed", kgo.TryCommit}} {
				record := &kgo.Record{Topic: topic, Value: []byte(each.value)}
				failed = errors.Join(failed, producer.BeginTransaction(), producer.ProduceSync(ctx, record).FirstErr())
				failed = errors.Join(failed, producer.EndTransaction(ctx, each.commit))
			}
			if failed != nil {
				return failed
			}
			records, err := from(3*steps.Records, 1, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			if err != nil {
				return err
			}
			return steps.Check(string(records[0].Value), "committed")
		},
		"delete-group": func() error {
			member.Close()
			_, err := admin.DeleteGroup(ctx, group)
			return err
		},
		"delete-topic": func() error {
			_, err := admin.DeleteTopic(ctx, topic)
			return err
		},
	})
}
