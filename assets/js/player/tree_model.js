// What is known of a draft tree: who is whose child, how sure the draft was, and how the tree grew.

// The nodes of a round's tree, and with `all` the candidates that a dynamic tree looked at and dropped.
function treeMembers(round, all) {
  const nodes = round.items.map((item) => ({
    id: item.node, parent: item.parent, depth: item.depth, token: item.token, name: item.name, before: item.before, item,
  }));
  return all ? nodes.concat(round.grown?.candidates || []) : nodes;
}

// Candidates that became no nodes: numbered on from the nodes, as the record numbers them.
function readGrown(round) {
  const fact = round.evidence.find((one) => one.kind === 'grown');
  if (!fact) return null;
  const above = (id) => (id < round.size ? round.items[id] : candidates[id - round.size]);
  const candidates = [];
  (fact.tokens || []).forEach((token, at) => {
    const parent = fact.parents[at], mother = parent < 0 ? null : above(parent);
    const before = mother ? decodeToken(mother.before, mother.token).carry : round.startCarry;
    const fed = decodeToken(before, token);
    candidates.push({id: round.size + at, parent, depth: mother ? mother.depth + 1 : 1, token, name: fed.name, before, path: fact.values[at]});
  });
  const members = [...round.items, ...candidates];
  return {candidates, expanded: new Set(fact.expanded || []), hidden: fact.value || 0, levels: Math.max(0, ...members.map((one) => one.depth))};
}

// The sub-steps in which a dynamic tree comes about: one per level, then the choice of the best.
function growSteps(round) {
  if (!round.grown) return [];
  const levels = Array.from({length: round.grown.levels}, (_, at) => ({stage: 'draft', grow: at + 1}));
  return [...levels, {stage: 'draft', grow: 'rerank'}];
}

// How probable the draft takes a member's whole path to be; undefined where nothing says so.
function pathChance(round, id) {
  if (id < 0) return 1;
  if (id >= round.size) return round.grown.candidates[id - round.size].path;
  const sure = round.evidence.find((fact) => fact.kind === 'confidence' && fact.values?.length);
  if (sure) return sure.values[id];
  const single = round.evidence.find((fact) => fact.kind === 'confidence' && (fact.node ?? -1) === id);
  if (single && single.value !== undefined) return single.value;
  const own = rawChance(round.items[id], 'raw_draft'), above = pathChance(round, round.items[id].parent);
  return own === undefined || above === undefined ? undefined : own * above;
}

// Given its parent.
function draftChance(round, id) {
  const parent = id < round.size ? round.items[id].parent : round.grown.candidates[id - round.size].parent;
  const own = id < round.size ? rawChance(round.items[id], 'raw_draft') : undefined;
  if (own !== undefined) return own;
  const path = pathChance(round, id), above = pathChance(round, parent);
  return path === undefined || !above ? undefined : Math.min(1, path / above);
}

const targetChance = (item) => rawChance(item, 'raw_target');

// What a model's own law, before temperature and filters, gives this token where the rule tested it.
function rawChance(item, law) {
  const at = item.flip && item.slice?.[law]?.length ? item.slice.tokens.indexOf(item.token) : -1;
  return at < 0 ? undefined : item.slice[law][at];
}

function memberOf(round, id) { return id < round.size ? round.items[id] : round.grown?.candidates[id - round.size]; }

// From a member up to the pending token (-1), both included.
function lineage(round, id) {
  const path = [id];
  while (path[path.length - 1] >= 0) path.push(memberOf(round, path[path.length - 1]).parent);
  return path;
}

/* One column per level, children in the order of their parents, so that no two edges cross, each near
   its parent, within as many lines as the fullest level has. Places are {x: level, y: line}. */
function layoutTree(members) {
  const children = new Map();
  for (const one of members) {
    if (!children.has(one.parent)) children.set(one.parent, []);
    children.get(one.parent).push(one.id);
  }
  const columns = [[-1]];
  for (let column = columns[0]; column.length; column = columns[columns.length - 1]) columns.push(column.flatMap((id) => children.get(id) || []));
  columns.pop();
  const lines = Math.max(...columns.map((column) => column.length)), places = new Map([[-1, {x: 0, y: (lines - 1) / 2}]]);
  columns.forEach((column, level) => { if (level) placeColumn(column, level, {columns, children, places, lines}); });
  return {places, lines, levels: columns.length - 1};
}

function placeColumn(column, level, {columns, children, places, lines}) {
  const wishes = columns[level - 1].flatMap((parent) => {
    const own = children.get(parent) || [], middle = places.get(parent).y - (own.length - 1) / 2;
    return own.map((_, at) => middle + at);
  });
  const heights = [];
  wishes.forEach((wish, at) => heights.push(Math.max(wish, at ? heights[at - 1] + 1 : wish)));
  const drift = heights.reduce((sum, height, at) => sum + height - wishes[at], 0) / heights.length;
  let floor = 0;
  const low = heights.map((height) => { const y = Math.max(height - drift, floor); floor = y + 1; return y; });
  let ceiling = lines - 1;
  for (let at = column.length - 1; at >= 0; at -= 1) {
    const y = Math.min(low[at], ceiling);
    ceiling = y - 1;
    places.set(column[at], {x: level, y});
  }
}
