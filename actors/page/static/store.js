// The picture of a cluster, as the server sends it: whole (`load`), and then its changes (`patch`).

export const OK = 0, UNDER = 1, UNDER_MIN = 2, OFFLINE = 3;
export const STATES = ["in sync", "under-replicated", "under min ISR", "offline"];

export const store = {
  at: 0, cluster: {}, brokers: [], topics: new Map(), groups: [], transactions: [], refused: [], feed: [], effects: [],
};

const SECTIONS = ["cluster", "brokers", "groups", "transactions", "refused", "effects"];
const LINES = 1000;
let derived = null;

export function load(picture) {
  take(picture);
  const { lists } = picture;
  store.topics = new Map();
  for (const { name, numbers, leaders, isrs, replicas, minimums } of picture.topics) {
    const topic = {
      name, leaders,
      numbers: numbers ?? leaders.map((_, number) => number),
      isrs: isrs.map((list) => lists[list]),
      replicas: replicas.map((list) => lists[list]),
      minimums: Array.isArray(minimums) ? minimums : leaders.map(() => minimums),
    };
    store.topics.set(name, topic);
  }
  store.feed = picture.feed.reverse();
}

export function patch(changes) {
  take(changes);
  const lists = new Map();
  const shared = (list) => {
    const key = list.join();
    if (!lists.has(key)) lists.set(key, list);
    return lists.get(key);
  };
  for (const [name, number, leader, isr, replicas, minimum] of changes.rows ?? []) {
    if (!store.topics.has(name)) {
      store.topics.set(name, { name, numbers: [], leaders: [], isrs: [], replicas: [], minimums: [] });
    }
    const topic = store.topics.get(name);
    let row = topic.numbers[number] === number ? number : topic.numbers.indexOf(number);
    if (row < 0) row = topic.numbers.push(number) - 1;
    topic.leaders[row] = leader;
    topic.isrs[row] = shared(isr);
    topic.replicas[row] = shared(replicas);
    topic.minimums[row] = minimum;
  }
  for (const line of changes.feed ?? []) {
    const known = store.feed.findIndex(({ n }) => n <= line.n);
    if (known >= 0 && store.feed[known].n === line.n) store.feed[known] = line;
    else store.feed.splice(known < 0 ? store.feed.length : known, 0, line);
  }
  store.feed.length = Math.min(store.feed.length, LINES);
}

function take(picture) {
  derived = null;
  store.at = Math.max(store.at, picture.at ?? 0);
  for (const name of SECTIONS) if (picture[name] !== undefined) store[name] = picture[name];
}

// Brokers that lead and follow: registered in ZooKeeper, as far as the controller knows.
const live = () => new Set(store.brokers.filter((broker) => broker.live).map((broker) => broker.id));

// What is computed from the picture: the states of all partitions, counted by topic and by broker.
export function summary() {
  if (derived) return derived;
  const alive = live();
  const counts = [0, 0, 0, 0];
  const brokers = new Map(store.brokers.map(({ id }) => [id, { leads: 0, follows: 0, out: 0 }]));
  const of = (id) => {
    if (!brokers.has(id)) brokers.set(id, { leads: 0, follows: 0, out: 0 });
    return brokers.get(id);
  };
  const topics = [];
  for (const topic of store.topics.values()) {
    const states = topic.leaders.map((leader, row) => {
      const isr = topic.isrs[row];
      const replicas = topic.replicas[row];
      for (const id of replicas) {
        if (id === leader) of(id).leads++;
        else if (isr.includes(id)) of(id).follows++;
        else of(id).out++;
      }
      if (leader < 0 || (alive.size && !alive.has(leader))) return OFFLINE;
      if (isr.length < topic.minimums[row]) return UNDER_MIN;
      return isr.length < replicas.length ? UNDER : OK;
    });
    const own = [0, 0, 0, 0];
    for (const state of states) own[state]++;
    own.forEach((number, state) => (counts[state] += number));
    topics.push({ topic, states, counts: own, worst: own[3] ? 3 : own[2] ? 2 : own[1] ? 1 : 0 });
  }
  topics.sort((a, b) => b.worst - a.worst || inner(a) - inner(b) || (a.topic.name < b.topic.name ? -1 : 1));
  derived = { counts, topics, brokers, partitions: counts.reduce((sum, number) => sum + number, 0) };
  return derived;
}

const inner = ({ topic }) => Number(topic.name.startsWith("__"));

// Whether a broker is suspended: by a fault that it recorded, or by the process that runs it.
export const isPaused = ({ id, paused }) => paused || store.effects.some(({ text }) => text === `broker ${id} is paused`);

// What is wrong, worst first; empty if nothing is.
export function problems() {
  const { counts } = summary();
  const down = store.brokers.filter((broker) => !broker.live || broker.process !== "running");
  const said = store.brokers.length === 0 ? [] : [
    store.cluster.controller === null && "no controller",
    counts[OFFLINE] && `${counts[OFFLINE]} offline`,
    counts[UNDER_MIN] && `${counts[UNDER_MIN]} under min ISR`,
    counts[UNDER] && `${counts[UNDER]} under-replicated`,
    down.length && `broker ${down.map(({ id }) => id).join(", ")} down`,
  ];
  return said.filter(Boolean);
}
