// The steps with kafkajs.
import { readFileSync } from "node:fs"
import kafkajs from "kafkajs"
import { RECORDS, all, check, group, prefix, run, servers, topic, values, within } from "./steps.mjs"

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
const { version } = JSON.parse(readFileSync(new URL("node_modules/kafkajs/package.json", import.meta.url)))
const kafka = new Kafka({ clientId: prefix, brokers: servers.split(","), logLevel: logLevel.NOTHING })
const admin = kafka.admin()
let member, found

async function send (kind, settings = {}, more = {}) {
  const producer = kafka.producer(settings)
  await producer.connect()
  const messages = values(kind).map(value => ({ key: "key", value, partition: 0, headers: { h: "1" } }))
  await producer.send({ topic, acks: -1, messages, ...more })
  await producer.disconnect()
}

function collect (consumer, count) {
  const records = []
  return new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        records.push({ ...message, partition })
        if (records.length === count) resolve(records)
      }
    }).catch(reject)
  })
}

async function read (offset, count, groupId, settings = {}) {
  const consumer = kafka.consumer({ groupId, ...settings })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const records = collect(consumer, count)
  consumer.seek({ topic, partition: 0, offset: String(offset) })
  try {
    return await within(records, "reading")
  } finally {
    await consumer.disconnect()
  }
}

async function retention () {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ["retention.ms"] }]
  const described = await admin.describeConfigs({ resources, includeSynonyms: false })
  return described.resources[0].configEntries[0].configValue
}

await run(version, {
  cluster: async () => {
    await admin.connect()
    check((await admin.describeCluster()).brokers.length, 3)
  },
  "create-topic": async () => {
    check(await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 3 }] }), true)
  },
  "describe-topic": async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    check(topics[0].partitions.map(each => each.isr.length), [3, 3, 3])
  },
  "describe-configs": async () => check(await retention(), "604800000"),
  "alter-configs": async () => {
    const configEntries = [{ name: "retention.ms", value: "3600000" }]
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await admin.alterConfigs({ validateOnly: false, resources })
    check(await retention(), "3600000")
  },
  "create-partitions": async () => {
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  },
  produce: () => send("plain"),
  "produce-gzip": () => send("gzip", {}, { compression: CompressionTypes.GZIP }),
  "produce-idempotent": () => send("idempotent", { idempotent: true }),
  "list-offsets": async () => {
    const offsets = (await admin.fetchTopicOffsets(topic)).find(each => each.partition === 0)
    check([offsets.low, offsets.high], ["0", String(3 * RECORDS)])
  },
  "offsets-for-times": async () => {
    check((await admin.fetchTopicOffsetsByTimestamp(topic, 1)).find(each => each.partition === 0).offset, "0")
  },
  consume: async () => {
    found = await read(0, 3 * RECORDS, `${prefix}-none`)
    check(found.map(each => String(each.value)), all())
  },
  headers: async () => check([String(found[0].key), String(found[0].headers.h)], ["key", "1"]),
  "group-consume": async () => {
    member = kafka.consumer({ groupId: group })
    await member.connect()
    await member.subscribe({ topic, fromBeginning: true })
    check((await within(collect(member, 3 * RECORDS), "reading")).length, 3 * RECORDS)
  },
  commit: async () => {
    await member.commitOffsets([{ topic, partition: 0, offset: "7" }])
    const [committed] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    check(committed.partitions.find(each => each.partition === 0).offset, "7")
  },
  "list-groups": async () => {
    check((await admin.listGroups()).groups.some(each => each.groupId === group), true)
  },
  "describe-group": async () => check((await admin.describeGroups([group])).groups[0].members.length, 1),
  transaction: async () => {
    const producer = kafka.producer({ transactionalId: `${prefix}-id`, maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    for (const [value, commits] of [["aborted", false], ["committed", true]]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ value, partition: 0 }] })
      await (commits ? transaction.commit() : transaction.abort())
    }
    await producer.disconnect()
    const records = await read(3 * RECORDS, 1, `${prefix}-committed`)
    check(String(records[0].value), "committed")
  },
  "delete-group": async () => {
    await member.disconnect()
    await admin.deleteGroups([group])
  },
  "delete-topic": () => admin.deleteTopics({ topics: [topic] })
})
