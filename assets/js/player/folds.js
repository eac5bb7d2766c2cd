// The fold-outs: drawn only while open, redrawn when the detail round changes.
const FOLDS = [];
const FOLD_ORDER = ['table', 'tree', 'window', 'layers', 'cache', 'timeline', 'counters', 'depths', 'tape', 'code'];
const openFolds = new Set();

/* Register a fold-out. build(body): once per opening and per run; update(body): on every change of
   the detail round; grow(body, from): when rounds were added; hides(): whether the run has nothing
   for it. */
function fold(name, hooks) { FOLDS.push({name, ...hooks}); }

function foldNodes() {
  FOLDS.sort((a, b) => FOLD_ORDER.indexOf(a.name) - FOLD_ORDER.indexOf(b.name));
  return FOLDS.map((entry) => {
    entry.body = make('div', {class: `fold-body ${entry.name}`});
    return make('details', {class: 'fold', 'data-fold': entry.name, hidden: Boolean(entry.hides)},
      make('summary', {}, make('span', {class: 'fold-title'}, label(entry.name)), make('span', {class: 'fold-ask'}, label(`${entry.name}_ask`))), entry.body);
  });
}

function toggleFold(name, open) {
  const entry = FOLDS.find((one) => one.name === name);
  if (!entry) return;
  if (open) { openFolds.add(entry); rebuildFold(entry); } else openFolds.delete(entry);
}

function rebuildFold(entry) {
  entry.body.replaceChildren();
  if (!store.rounds.length && !['counters', 'depths', 'code'].includes(entry.name)) {
    entry.body.append(make('p', {class: 'hint'}, label('nothing_yet')));
    return;
  }
  entry.build?.(entry.body);
  entry.update?.(entry.body);
  paintLinks();
}

function updateFolds() {
  for (const entry of openFolds) entry.update?.(entry.body);
  if (openFolds.size) paintLinks();
}

function hideFolds() { for (const entry of FOLDS) if (entry.hides) entry.body.parentNode.hidden = entry.hides(); }

function rebuildFolds() {
  hideFolds();
  for (const entry of openFolds) rebuildFold(entry);
}

function growFolds(from) {
  hideFolds();
  for (const entry of openFolds) {
    if (entry.grow && from > 0) entry.grow(entry.body, from);
    else rebuildFold(entry);
  }
}

// Rounds around the detail round: a long run stays cheap to draw.
function nearbyRounds(half) {
  const middle = detailRound(), from = Math.max(0, Math.min(middle - half, lastRound() - 2 * half));
  return store.rounds.slice(from, from + 2 * half + 1);
}
