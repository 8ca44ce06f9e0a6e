// The steps with kafka-go. It has no idempotent and no transactional producer.
package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"clients/steps"

	"github.com/segmentio/kafka-go"
)

var (
	servers, prefix = strings.Split(os.Args[1], ","), os.Args[2]
	topic, group    = prefix + "-topic", prefix + "-group"
	client          = &kafka.Client{Addr: kafka.TCP(servers...), Timeout: steps.Wait}
	member          *kafka.Reader
	background      = context.Background()
)

func send(kind string, compression kafka.Compression) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(servers...), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: compression,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
		BatchTimeout: 10 * time.Millisecond,
	}
	defer writer.Close()
	var messages []kafka.Message
	for _, value := range steps.Values(kind) {
		headers := []kafka.Header{{Key: "h", Value: []byte("1")}}
		messages = append(messages, kafka.Message{Key: []byte("key"), Value: []byte(value), Headers: headers})
	}
	return writer.WriteMessages(background, messages...)
}

func read(offset int64, count int) (found []kafka.Message, err error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: servers, Topic: topic, Partition: 0})
	defer reader.Close()
	err = reader.SetOffset(offset)
	for len(found) < count && err == nil {
		var message kafka.Message
		message, err = reader.ReadMessage(background)
		found = append(found, message)
	}
	return found, err
}

func retention() string {
	resource := kafka.DescribeConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
	}
	request := &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}}
	described, err := client.DescribeConfigs(background, request)
	if err != nil || len(described.Resources) != 1 || len(described.Resources[0].ConfigEntries) != 1 {
		return "?"
	}
	return described.Resources[0].ConfigEntries[0].ConfigValue
}

func offset(wanted kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	request := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {wanted}}}
	listed, err := client.ListOffsets(background, request)
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	return listed.Topics[topic][0], listed.Topics[topic][0].Error
}

func main() {
	steps.Run("github.com/segmentio/kafka-go", map[string]func() error{
		"cluster": func() error {
			found, err := client.Metadata(background, &kafka.MetadataRequest{})
			if err != nil {
				return err
			}
			return steps.Check(len(found.Brokers), 3)
		},
		"create-topic": func() error {
			topics := []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 3}}
			created, err := client.CreateTopics(background, &kafka.CreateTopicsRequest{Topics: topics})
			if err != nil {
				return err
			}
			return created.Errors[topic]
		},
		"describe-topic": func() error {
			found, err := client.Metadata(background, &kafka.MetadataRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			var isrs []int
			for _, partition := range found.Topics[0].Partitions {
				isrs = append(isrs, len(partition.Isr))
			}
			return steps.Check(isrs, []int{3, 3, 3})
		},
		"describe-configs": func() error { return steps.Check(retention(), "604800000") },
		"alter-configs": func() error {
			value := "3600000"
			resource := kafka.IncrementalAlterConfigsRequestResource{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{
					{Name: "retention.ms", Value: value, ConfigOperation: kafka.ConfigOperationSet},
				},
			}
			_, err := client.IncrementalAlterConfigs(background, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
			})
			return errors.Join(err, steps.Check(retention(), value))
		},
		"create-partitions": func() error {
			topics := []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}}
			created, err := client.CreatePartitions(background, &kafka.CreatePartitionsRequest{Topics: topics})
			if err != nil {
				return err
			}
			return created.Errors[topic]
		},
		"produce":      func() error { return send("plain", 0) },
		"produce-gzip": func() error { return send("gzip", kafka.Gzip) },
		"produce-idempotent": func() error {
			return errors.Join(send("idempotent", 0), steps.ErrNoSuchCall)
		},
		"list-offsets": func() error {
			first, one := offset(kafka.FirstOffsetOf(0))
			last, other := offset(kafka.LastOffsetOf(0))
			found := []int64{first.FirstOffset, last.LastOffset}
			return errors.Join(one, other, steps.Check(found, []int64{0, 3 * steps.Records}))
		},
		"offsets-for-times": func() error {
			found, err := offset(kafka.TimeOffsetOf(0, time.UnixMilli(1)))
			_, known := found.Offsets[0]
			return errors.Join(err, steps.Check(known, true))
		},
		"consume": func() error {
			records, err := read(0, 3*steps.Records)
			var values []string
			for _, record := range records {
				values = append(values, string(record.Value))
			}
			return errors.Join(err, steps.Check(values, steps.All()))
		},
		"headers": func() error {
			records, err := read(steps.Records, 1)
			if err != nil {
				return err
			}
			header := records[0].Headers[0]
			found := []string{string(records[0].Key), header.Key, string(header.Value)}
			return steps.Check(found, []string{"key", "h", "1"})
		},
		"group-consume": func() error {
			member = kafka.NewReader(kafka.ReaderConfig{
				Brokers: servers, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
			})
			for range 3 * steps.Records {
				if _, err := member.FetchMessage(background); err != nil {
					return err
				}
			}
			return nil
		},
		"commit": func() error {
			if err := member.CommitMessages(background, kafka.Message{Topic: topic, Offset: 6}); err != nil {
				return err
			}
			committed, err := client.OffsetFetch(background, &kafka.OffsetFetchRequest{
				GroupID: group, Topics: map[string][]int{topic: {0}},
			})
			if err != nil {
				return err
			}
			return steps.Check(committed.Topics[topic][0].CommittedOffset, 7)
		},
		"list-groups": func() error {
			listed, err := client.ListGroups(background, &kafka.ListGroupsRequest{})
			if err != nil {
				return err
			}
			known := false
			for _, each := range listed.Groups {
				known = known || each.GroupID == group
			}
			return steps.Check(known, true)
		},
		"describe-group": func() error {
			described, err := client.DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
			if err != nil {
				return err
			}
			return steps.Check(len(described.Groups[0].Members), 1)
		},
		"transaction": func() error { return steps.ErrNoSuchCall },
		"delete-group": func() error {
			closed := member.Close()
			deleted, err := client.DeleteGroups(background, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
			if err != nil {
				return err
			}
			return errors.Join(closed, deleted.Errors[group])
		},
		"delete-topic": func() error {
			deleted, err := client.DeleteTopics(background, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			return deleted.Errors[topic]
		},
	})
}
