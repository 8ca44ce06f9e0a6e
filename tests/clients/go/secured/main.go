// Produce and consume with franz-go on a secured listener: servers, topic, group, mechanism, password or token, authority,
// and the file with a client certificate and its key. The mechanism SSL is the certificate alone.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func main() {
	servers, topic, group, secret := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[5]
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: "alice", Pass: secret}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: "alice", Pass: secret}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: "alice", Pass: secret}.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: secret}.AsMechanism(),
	}
	authority, err := os.ReadFile(os.Args[6])
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(authority)
	options := []kgo.Opt{
		kgo.SeedBrokers(servers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if mechanism, found := mechanisms[os.Args[4]]; found {
		options = append(options, kgo.SASL(mechanism))
	} else {
		certificate, err := tls.LoadX509KeyPair(os.Args[7], os.Args[7])
		check(err)
		config.Certificates = []tls.Certificate{certificate}
	}
	client, err := kgo.NewClient(append(options, kgo.DialTLSConfig(config))...)
	check(err)
	limited, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: topic, Value: []byte(group)}
	check(client.ProduceSync(limited, record).FirstErr())
	for limited.Err() == nil {
		fetches := client.PollFetches(limited)
		check(fetches.Err())
		for _, each := range fetches.Records() {
			if string(each.Value) == group {
				client.Close()
				fmt.Println("ok")
				return
			}
		}
	}
	check(limited.Err())
}
