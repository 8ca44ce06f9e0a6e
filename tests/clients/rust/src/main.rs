//! The steps with krafka; see steps.py.

use std::time::Duration;

use krafka::admin::{ConfigOp, ConfigResource, NewTopic, OffsetSpec, TopicPartition};
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel, OffsetAndMetadata};
use krafka::{Compression, Kafka, Record};
use tokio::time::{Instant, sleep, timeout};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const NAMES: &str = "cluster create-topic describe-topic describe-configs alter-configs create-partitions produce \
    produce-gzip produce-idempotent list-offsets offsets-for-times consume headers group-consume commit list-groups \
    describe-group transaction delete-group delete-topic";
const RECORDS: usize = 10;
const WAIT: Duration = Duration::from_secs(20);

fn check<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}").into()) }
}

fn values(kind: &str) -> Vec<String> {
    (0..RECORDS).map(|number| format!("{kind} {number}")).collect()
}

fn value(record: &ConsumerRecord) -> String {
    record.value_str().unwrap_or_default().to_string()
}

struct Steps {
    kafka: Kafka,
    topic: String,
    group: String,
    id: String,
    member: Option<Consumer>,
}

impl Steps {
    async fn send(&self, kind: &str, compression: Compression, idempotent: bool) -> Outcome {
        let producer = self.kafka.producer().compression(compression).idempotent(idempotent).build().await?;
        for value in values(kind) {
            let _ = producer.send(Record::new(&self.topic, value).key("key").partition(0).header("h", "1")).await?;
        }
        Ok(producer.close().await?)
    }

    async fn read(&self, offset: i64, count: usize, level: IsolationLevel) -> krafka::Result<Vec<ConsumerRecord>> {
        let consumer = self.kafka.consumer_without_group().isolation_level(level).build().await?;
        consumer.assign(&self.topic, vec![0]).await?;
        consumer.seek(&self.topic, 0, offset).await?;
        let records = poll(&consumer, count).await?;
        consumer.close().await?;
        Ok(records)
    }

    async fn retention(&self) -> Result<Option<String>, Box<dyn std::error::Error>> {
        let resource = ConfigResource::topic(&self.topic);
        let mut described = self.kafka.admin().describe_configs([resource.clone()], Default::default()).await?;
        let entries = described.remove(&resource).ok_or("no answer")??;
        Ok(entries.into_iter().find(|each| each.name == "retention.ms").and_then(|each| each.value))
    }

    async fn step(&mut self, name: &str) -> Outcome {
        let (admin, topic, group) = (self.kafka.admin(), self.topic.clone(), self.group.clone());
        let first = TopicPartition::new(&topic, 0);
        match name {
            "cluster" => check(admin.describe_cluster(Default::default()).await?.brokers.len(), 3),
            "create-topic" => {
                let made = admin.create_topics([NewTopic::new(&topic, 3, 3)?], Default::default()).await?;
                Ok(made.into_values().collect::<krafka::Result<()>>()?)
            }
            "describe-topic" => {
                let partitions = loop {
                    let mut described = admin.describe_topics([&topic], Default::default()).await?;
                    match described.remove(&topic).ok_or("no answer")? {
                        Ok(found) => break found.partitions,
                        Err(_) => sleep(Duration::from_millis(100)).await, // not every broker knows it yet
                    }
                };
                check(partitions.iter().map(|each| each.isr.len()).collect(), vec![3, 3, 3])
            }
            "describe-configs" => check(self.retention().await?.as_deref(), Some("604800000")),
            "alter-configs" => {
                let change = (ConfigResource::topic(&topic), vec![ConfigOp::set("retention.ms", "3600000")]);
                let altered = admin.incremental_alter_configs([change], Default::default()).await?;
                altered.into_values().collect::<krafka::Result<()>>()?;
                check(self.retention().await?.as_deref(), Some("3600000"))
            }
            "create-partitions" => {
                let made = admin.create_partitions([(&topic, 4)], Default::default()).await?;
                Ok(made.into_values().collect::<krafka::Result<()>>()?)
            }
            "produce" => self.send("plain", Compression::None, false).await,
            "produce-gzip" => self.send("gzip", Compression::Gzip, false).await,
            "produce-idempotent" => self.send("idempotent", Compression::None, true).await,
            "list-offsets" => {
                let mut found = vec![];
                for spec in [OffsetSpec::Earliest, OffsetSpec::Latest] {
                    let listed = admin.list_offsets([(first.clone(), spec)], Default::default()).await?;
                    found.push(listed.into_values().next().ok_or("no answer")??.offset);
                }
                check(found, vec![0, 3 * RECORDS as i64])
            }
            "offsets-for-times" => {
                let consumer = self.kafka.consumer_without_group().build().await?;
                let found = consumer.offsets_for_times(&[(&topic, 0)], 1).await;
                check(found.into_values().next().ok_or("no answer")??, 0)
            }
            "consume" => {
                let records = self.read(0, 3 * RECORDS, IsolationLevel::ReadUncommitted).await?;
                let expected = ["plain", "gzip", "idempotent"].map(values).concat();
                check(records.iter().map(value).collect(), expected)
            }
            "headers" => {
                let records = self.read(RECORDS as i64, 1, IsolationLevel::ReadUncommitted).await?;
                let record = records.first().ok_or("no record")?;
                check((record.key_str(), record.header_str("h")), (Some("key"), Some("1")))
            }
            "group-consume" => {
                let builder = self.kafka.consumer(&group).auto_offset_reset(AutoOffsetReset::Earliest);
                let member = self.member.insert(builder.enable_auto_commit(false).build().await?);
                member.subscribe([&topic]).await?;
                check(poll(member, 3 * RECORDS).await?.len(), 3 * RECORDS)
            }
            "commit" => {
                let member = self.member.as_ref().ok_or("no member")?;
                member.commit_offsets([(first.clone(), OffsetAndMetadata::new(7))]).await?;
                let mut listed = admin.list_consumer_group_offsets(&group, Default::default()).await?;
                check(listed.remove(&first).ok_or("no answer")??.offset, Some(7))
            }
            "list-groups" => {
                let mut known = false;
                for listed in admin.list_consumer_groups(Default::default()).await?.into_values() {
                    known |= listed?.iter().any(|each| each.group_id == group);
                }
                check(known, true)
            }
            "describe-group" => {
                let mut described = admin.describe_consumer_groups([&group], Default::default()).await?;
                check(described.remove(&group).ok_or("no answer")??.members.len(), 1)
            }
            "transaction" => {
                let producer = self.kafka.producer().build_transactional(&*self.id).await?;
                for value in ["aborted", "committed"] {
                    producer.begin()?;
                    let _ = producer.send(Record::new(&topic, value).partition(0)).await?;
                    if value == "aborted" { producer.abort().await? } else { producer.commit().await? };
                }
                producer.close().await?;
                let records = self.read(3 * RECORDS as i64, 1, IsolationLevel::ReadCommitted).await?;
                check(records.iter().map(value).collect(), vec!["committed".to_string()])
            }
            "delete-group" => {
                self.member.take().ok_or("no member")?.close().await?;
                let deleted = admin.delete_consumer_groups([&group], Default::default()).await?;
                Ok(deleted.into_values().collect::<krafka::Result<()>>()?)
            }
            _ => {
                let deleted = admin.delete_topics([&topic], Default::default()).await?;
                Ok(deleted.into_values().collect::<krafka::Result<()>>()?)
            }
        }
    }
}

async fn poll(consumer: &Consumer, count: usize) -> krafka::Result<Vec<ConsumerRecord>> {
    let (mut records, end) = (vec![], Instant::now() + WAIT / 2);
    while records.len() < count && Instant::now() < end {
        records.extend(consumer.poll(Duration::from_millis(500)).await?);
    }
    records.truncate(count);
    Ok(records)
}

#[tokio::main]
async fn main() -> Outcome {
    let given: Vec<String> = std::env::args().collect();
    println!("version 0.28.1");
    let kafka = Kafka::builder(&*given[1]).connect().await?;
    let [topic, group, id] = ["topic", "group", "id"].map(|each| format!("{}-{each}", given[2]));
    let mut steps = Steps { kafka, topic, group, id, member: None };
    for name in NAMES.split_whitespace() {
        let outcome = timeout(WAIT, steps.step(name)).await.unwrap_or_else(|_| Err(format!("it took {WAIT:?}").into()));
        match outcome {
            Ok(()) => println!("{name} ok"),
            Err(error) => println!("{name} failed {}", error.to_string().replace('\n', " ")),
        }
    }
    std::process::exit(0)
}
