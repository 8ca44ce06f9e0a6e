// The steps of a client for Node; see steps.py.
export const STEPS = ["cluster", "create-topic", "describe-topic", "describe-configs", "alter-configs",
  "create-partitions", "produce", "produce-gzip", "produce-idempotent", "list-offsets", "offsets-for-times", "consume",
  "headers", "group-consume", "commit", "list-groups", "describe-group", "transaction", "delete-group", "delete-topic"]
export const RECORDS = 10
export const WAIT_MS = 20000
export const [servers, prefix] = process.argv.slice(2)
export const topic = `${prefix}-topic`, group = `${prefix}-group`

export class NoSuchCall extends Error {}

export function check (found, expected) {
  const [one, other] = [found, expected].map(value => JSON.stringify(value))
  if (one !== other) throw new Error(`${one} instead of ${other}`)
}

export function within (promise, what) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${WAIT_MS} ms`)), WAIT_MS)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

export function values (kind) {
  return Array.from({ length: RECORDS }, (_, number) => `${kind} ${number}`)
}

export const all = () => ["plain", "gzip", "idempotent"].flatMap(values)

export async function run (version, steps) {
  console.log(`version ${version}`)
  for (const name of STEPS) {
    try {
      await within(steps[name](), name)
      console.log(`${name} ok`)
    } catch (error) {
      const text = [error, ...(error.errors ?? [])].map(each => each.message ?? String(each)).join(": ")
      console.log(`${name} ${error instanceof NoSuchCall ? "-" : "failed"} ${text.replace(/\s+/g, " ").slice(0, 300)}`)
    }
  }
  process.exit(0)
}
