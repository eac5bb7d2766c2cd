// A published table, the formula, and coins flipped here.
let given = read(), state = given.state, fault = '';
const ask = asker('rounds', (reply) => {
  fault = reply.error || '';
  if (!fault) state = reply;
  draw();
});

function nameOf(row) {
  const {words} = given, values = {...row, first: row.stretches?.[0], second: row.stretches?.[1]};
  return fillIn(row.stretches ? words.row_stretches : words.row_setting, values);
}

function rowOf(row) {
  const {words} = given, {formula, simulated} = row, inside = simulated.low <= formula && formula <= simulated.high;
  const coins = make('td', {class: inside ? 'inside' : 'outside', title: fillIn(inside ? words.inside : words.outside, {low: two(simulated.low), high: two(simulated.high)})},
    make('b', {}, two(simulated.tokens_per_pass)), make('small', {}, ` ${two(simulated.low)}–${two(simulated.high)}`));
  return make('tr', {}, make('th', {scope: 'row'}, nameOf(row)), make('td', {}, row.published ? two(row.published.speed) : '–'), make('td', {}, two(formula)), coins,
    make('td', {class: 'first'}, row.published ? two(row.published.operations) : '–'), make('td', {}, two(row.operations)), make('td', {}, make('b', {}, two(row.simulated_operations))));
}

function draw() {
  const {words, caption} = given, again = make('button', {type: 'button', class: 'again'}, words.again);
  again.addEventListener('click', () => ask({rows: given.state.rows.map(({alpha, gamma, stretches, length, published}) => (stretches ? {stretches, length, gamma} : {alpha, gamma, published})), rounds: state.rounds, seed: state.seed + 100}));
  const three = [words.col_published, words.col_formula, words.col_simulated];
  const focused = root.contains(document.activeElement);
  root.replaceChildren(make('figure', {class: 'coins-table'},
    make('div', {class: 'scroll-x'}, make('table', {}, make('thead', {},
      make('tr', {}, make('td', {}), make('th', {colspan: 3, scope: 'colgroup'}, words.tokens_head), make('th', {colspan: 3, scope: 'colgroup', class: 'first'}, words.operations_head)),
      make('tr', {}, make('th', {scope: 'col'}, words.col_setting), three.map((text) => make('th', {scope: 'col'}, text)), three.map((text, i) => make('th', {scope: 'col', class: i ? '' : 'first'}, text)))),
    make('tbody', {}, state.rows.map(rowOf)))),
    make('div', {class: 'foot-row'}, again, make('span', {'aria-live': 'polite'}, fillIn(words.rounds_of, {rounds: state.rounds.toLocaleString('en-US'), seed: state.seed})), make('span', {class: 'badge'}, words.counted), make('span', {class: 'badge'}, words.published_by)),
    fault && make('p', {class: 'status error', role: 'alert'}, fault), make('figcaption', {}, caption)));
  element.dataset.seed = String(state.seed);
  if (focused) root.querySelector('.again').focus({preventScroll: true});
}
draw();
