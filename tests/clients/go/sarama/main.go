// The steps with sarama.
package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"clients/steps"

	"github.com/IBM/sarama"
)

var (
	servers, prefix = strings.Split(os.Args[1], ","), os.Args[2]
	topic, group    = prefix + "-topic", prefix + "-group"
	member          sarama.ConsumerGroup
	session         = make(chan sarama.ConsumerGroupSession, 1)
	received        = make(chan *sarama.ConsumerMessage, 1000)
	end             = make(chan struct{})
)

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	return made
}

func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

var (
	client = must(sarama.NewClient(servers, config()))
	admin  = must(sarama.NewClusterAdmin(servers, config()))
)

func send(kind string, settings *sarama.Config) error {
	producer, err := sarama.NewSyncProducer(servers, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, value := range steps.Values(kind) {
		headers := []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("1")}}
		key, text := sarama.StringEncoder("key"), sarama.StringEncoder(value)
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: key, Value: text, Headers: headers})
	}
	return producer.SendMessages(messages)
}

func read(offset int64, count int, settings *sarama.Config) (found []*sarama.ConsumerMessage, err error) {
	consumer, err := sarama.NewConsumer(servers, settings)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-time.After(steps.Wait / 2):
			return found, errors.New("no more records")
		}
	}
	return found, nil
}

func retention() string {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	entries, err := admin.DescribeConfig(resource)
	if err != nil || len(entries) != 1 {
		return "?"
	}
	return entries[0].Value
}

type handler struct{}

func (handler) Setup(begun sarama.ConsumerGroupSession) error { session <- begun; return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error     { return nil }
func (handler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message := <-claim.Messages():
			received <- message
		case <-end:
			return nil
		}
	}
}

func main() {
	steps.Run("github.com/IBM/sarama", map[string]func() error{
		"cluster": func() error {
			brokers, _, err := admin.DescribeCluster()
			return errors.Join(err, steps.Check(len(brokers), 3))
		},
		"create-topic": func() error {
			return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false)
		},
		"describe-topic": func() error {
			described, err := admin.DescribeTopics([]string{topic})
			if err != nil {
				return err
			}
			var isrs []int
			for _, partition := range described[0].Partitions {
				isrs = append(isrs, len(partition.Isr))
			}
			return steps.Check(isrs, []int{3, 3, 3})
		},
		"describe-configs": func() error { return steps.Check(retention(), "604800000") },
		"alter-configs": func() error {
			value := "3600000"
			changes := map[string]sarama.IncrementalAlterConfigsEntry{
				"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
			}
			err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
			return errors.Join(err, steps.Check(retention(), value))
		},
		"create-partitions": func() error { return admin.CreatePartitions(topic, 4, nil, false) },
		"produce":           func() error { return send("plain", config()) },
		"produce-gzip": func() error {
			settings := config()
			settings.Producer.Compression = sarama.CompressionGZIP
			return send("gzip", settings)
		},
		"produce-idempotent": func() error {
			settings := config()
			settings.Producer.Idempotent, settings.Net.MaxOpenRequests = true, 1
			return send("idempotent", settings)
		},
		"list-offsets": func() error {
			first, one := client.GetOffset(topic, 0, sarama.OffsetOldest)
			last, other := client.GetOffset(topic, 0, sarama.OffsetNewest)
			return errors.Join(one, other, steps.Check([]int64{first, last}, []int64{0, 3 * steps.Records}))
		},
		"offsets-for-times": func() error {
			offset, err := client.GetOffset(topic, 0, 1)
			return errors.Join(err, steps.Check(offset, 0))
		},
		"consume": func() error {
			records, err := read(0, 3*steps.Records, config())
			var values []string
			for _, record := range records {
				values = append(values, string(record.Value))
			}
			return errors.Join(err, steps.Check(values, steps.All()))
		},
		"headers": func() error {
			records, err := read(steps.Records, 1, config())
			if err != nil {
				return err
			}
			header := records[0].Headers[0]
			found := []string{string(records[0].Key), string(header.Key), string(header.Value)}
			return steps.Check(found, []string{"key", "h", "1"})
		},
		"group-consume": func() (err error) {
			if member, err = sarama.NewConsumerGroup(servers, group, config()); err != nil {
				return err
			}
			go member.Consume(context.Background(), []string{topic}, handler{})
			for range 3 * steps.Records {
				<-received
			}
			return nil
		},
		"commit": func() error {
			begun := <-session
			begun.ResetOffset(topic, 0, 7, "")
			begun.MarkOffset(topic, 0, 7, "")
			begun.Commit()
			committed, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
			if err != nil {
				return err
			}
			return steps.Check(committed.GetBlock(topic, 0).Offset, 7)
		},
		"list-groups": func() error {
			listed, err := admin.ListConsumerGroups()
			_, known := listed[group]
			return errors.Join(err, steps.Check(known, true))
		},
		"describe-group": func() error {
			described, err := admin.DescribeConsumerGroups([]string{group})
			if err != nil {
				return err
			}
			return steps.Check(len(described[0].Members), 1)
		},
		"transaction": func() error {
			settings := config()
			settings.Producer.Idempotent, settings.Net.MaxOpenRequests = true, 1
			settings.Producer.Transaction.ID = prefix + "-id"
			producer, err := sarama.NewSyncProducer(servers, settings)
			if err != nil {
				return err
			}
			defer producer.Close()
			for _, value := range []string{"aborted", "committed"} {
				err = errors.Join(err, producer.BeginTxn())
				_, _, sent := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
				if value == "aborted" {
					err = errors.Join(err, sent, producer.AbortTxn())
				} else {
					err = errors.Join(err, sent, producer.CommitTxn())
				}
			}
			if err != nil {
				return err
			}
			settings = config()
			settings.Consumer.IsolationLevel = sarama.ReadCommitted
			records, err := read(3*steps.Records, 1, settings)
			if err != nil {
				return err
			}
			return steps.Check(string(records[0].Value), "committed")
		},
		"delete-group": func() error {
			close(end)
			return errors.Join(member.Close(), admin.DeleteConsumerGroup(group))
		},
		"delete-topic": func() error { return admin.DeleteTopic(topic) },
	})
}
