// The steps with @platformatic/kafka, which needs Node 22 and topic ids.
import { readFileSync } from "node:fs"
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka"
import { RECORDS, all, check, group, prefix, run, servers, topic, values, within } from "./steps.mjs"

const TOPIC = 2, SET = 0, READ_COMMITTED = 1
const manifest = new URL("node_modules/@platformatic/kafka/package.json", import.meta.url)
const { version } = JSON.parse(readFileSync(manifest))
const base = { clientId: prefix, bootstrapBrokers: servers.split(",") }
const admin = new Admin(base)
let member, found

async function send (kind, more = {}) {
  const producer = new Producer({ ...base, serializers: stringSerializers })
  const messages = values(kind).map(value => ({ topic, key: "key", value, partition: 0, headers: { h: "1" } }))
  await producer.send({ messages, acks: -1, ...more })
  await producer.close()
}

function consumer (groupId) {
  return new Consumer({ ...base, groupId, deserializers: stringDeserializers })
}

async function collect (stream, count) {
  const records = []
  for await (const record of stream) {
    records.push(record)
    if (records.length === count) break
  }
  return records
}

async function read (offset, count, more = {}) {
  const reader = consumer(`${prefix}-none-${offset}`)
  const offsets = [0, 1, 2, 3].map(partition => ({ topic, partition, offset: partition ? 0n : BigInt(offset) }))
  try {
    const stream = await reader.consume({ topics: [topic], mode: "manual", offsets, autocommit: false, ...more })
    return await within(collect(stream, count), "reading")
  } finally {
    await reader.close(true)
  }
}

async function retention () {
  const resources = [{ resourceType: TOPIC, resourceName: topic, configurationKeys: ["retention.ms"] }]
  return (await admin.describeConfigs({ resources }))[0].configs[0].value
}

await run(`${version}, Node ${process.version}`, {
  cluster: async () => check((await admin.metadata({ topics: [] })).brokers.size, 3),
  "create-topic": async () => check((await admin.createTopics({ topics: [topic], partitions: 3, replicas: 3 })).length, 1),
  "describe-topic": async () => {
    check((await admin.metadata({ topics: [topic] })).topics.get(topic).partitions.map(each => each.isr.length), [3, 3, 3])
  },
  "describe-configs": async () => check(await retention(), "604800000"),
  "alter-configs": async () => {
    const configs = [{ name: "retention.ms", configOperation: SET, value: "3600000" }]
    await admin.incrementalAlterConfigs({ resources: [{ resourceType: TOPIC, resourceName: topic, configs }] })
    check(await retention(), "3600000")
  },
  "create-partitions": () => admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] }),
  produce: () => send("plain"),
  "produce-gzip": () => send("gzip", { compression: "gzip" }),
  "produce-idempotent": () => send("idempotent", { idempotent: true }),
  "list-offsets": async () => {
    for (const [timestamp, offset] of [[-2n, 0n], [-1n, BigInt(3 * RECORDS)]]) {
      const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] })
      check(String(listed.partitions[0].offset), String(offset))
    }
  },
  "offsets-for-times": async () => {
    const partitions = [{ partitionIndex: 0, timestamp: 1n }]
    const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }] })
    check(String(listed.partitions[0].offset), "0")
  },
  consume: async () => {
    found = await read(0, 3 * RECORDS)
    check(found.map(each => each.value), all())
  },
  headers: async () => check([found[0].key, found[0].headers.get("h")], ["key", "1"]),
  "group-consume": async () => {
    member = consumer(group)
    const stream = await member.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest", autocommit: false })
    const records = []
    await within(new Promise((resolve, reject) => {
      stream.on("error", reject)
      stream.on("data", record => records.push(record) === 3 * RECORDS && resolve())
    }), "reading")
  },
  commit: async () => {
    await member.commit({ offsets: [{ topic, partition: 0, offset: 7n, leaderEpoch: 0 }] })
    const [committed] = await admin.listConsumerGroupOffsets({ groups: [group] })
    const partitions = committed.topics.find(each => each.name === topic).partitions
    check(String(partitions.find(each => each.partitionIndex === 0).committedOffset), "7")
  },
  "list-groups": async () => check((await admin.listGroups()).has(group), true),
  "describe-group": async () => check((await admin.describeGroups({ groups: [group] })).get(group).members.size, 1),
  transaction: async () => {
    const settings = { transactionalId: `${prefix}-id`, idempotent: true, serializers: stringSerializers }
    const producer = new Producer({ ...base, ...settings })
    for (const [value, commits] of [["aborted", false], ["committed", true]]) {
      const transaction = await producer.beginTransaction()
      await transaction.send({ messages: [{ topic, value, partition: 0 }] })
      await (commits ? transaction.commit() : transaction.abort())
    }
    await producer.close()
    check((await read(3 * RECORDS, 1, { isolationLevel: READ_COMMITTED }))[0].value, "committed")
  },
  "delete-group": async () => {
    await member.close(true)
    await admin.deleteGroups({ groups: [group] })
  },
  "delete-topic": () => admin.deleteTopics({ topics: [topic] })
})
