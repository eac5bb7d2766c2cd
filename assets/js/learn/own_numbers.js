// An exercise whose numbers follow from the reader's own number; Python recomputes the answers.
let given = read(), state = given.state, fault = '', typed = {};
const ask = asker('exercise', (reply) => {
  fault = reply.error || '';
  if (!fault) state = reply;
  draw();
});
const asNumber = (text) => (text.trim() === '' ? null : Number(text.trim().replace(',', '.')));

function task() {
  const {words} = given, [first, second] = state.drafts;
  return second ? fillIn(words.task_two, {alpha: two(first.acceptance_rate), c: two(first.cost_ratio), alpha_b: two(second.acceptance_rate), c_b: two(second.cost_ratio)})
    : fillIn(words.task_one, {alpha: two(first.acceptance_rate), c: two(first.cost_ratio)});
}

function verdict() {
  const {words} = given, marks = Object.values(state.marks), right = marks.filter(Boolean).length;
  if (marks.every((mark) => mark === null)) return '';
  return right === marks.length ? fillIn(words.all_right, {n: right}) : fillIn(words.some_right, {right, n: marks.length});
}

function draw() {
  const {words, caption} = given, key = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const number = make('input', {type: 'text', inputmode: 'numeric', maxlength: 13, value: state.number, 'data-key': 'number', 'aria-label': words.your_number});
  const take = make('button', {type: 'button', 'data-key': 'take'}, words.give_me), check = make('button', {type: 'button', class: 'main', 'data-key': 'check'}, words.check);
  const begin = () => { typed = {}; ask({kind: state.kind, number: /^\d+$/.test(number.value.trim()) ? Number(number.value) : number.value, cells: {}}); };
  take.addEventListener('click', begin);
  number.addEventListener('keydown', (event) => { if (event.key === 'Enter') begin(); });
  const judge = () => ask({kind: state.kind, number: state.number, cells: Object.fromEntries(state.cells.map((cell) => [cell, asNumber(typed[cell] || '')]).map(([cell, value]) => [cell, Number.isFinite(value) ? value : null]))});
  check.addEventListener('click', judge);
  const rows = state.cells.map((cell) => {
    const label = fillIn(words[`cell_${cell}`], {gamma: state.gamma}), mark = state.marks[cell];
    const input = make('input', {type: 'text', inputmode: 'decimal', maxlength: 12, value: typed[cell] || '', 'data-key': cell, 'aria-label': label});
    input.addEventListener('input', () => { typed[cell] = input.value; });
    input.addEventListener('keydown', (event) => { if (event.key === 'Enter') judge(); });
    return make('label', {class: `cell ${mark === null ? '' : mark ? 'right' : 'wrong'}`}, make('span', {}, label), input, make('em', {}, mark === null ? '' : mark ? `✓ ${words.right}` : `✗ ${words.wrong}`));
  });
  root.replaceChildren(make('figure', {class: 'own-numbers'},
    make('div', {class: 'foot-row'}, make('label', {class: 'own'}, make('span', {}, words.your_number), number), take),
    fault && make('p', {class: 'status error', role: 'alert'}, fault),
    make('p', {class: 'total'}, task()), make('div', {class: 'cells'}, rows),
    make('div', {class: 'foot-row'}, check, make('b', {'aria-live': 'polite', class: 'verdict'}, verdict())),
    make('p', {class: 'small'}, words.nothing_kept), make('figcaption', {}, caption)));
  element.dataset.number = String(state.number);
  if (key) root.querySelector(`[data-key="${key}"]`)?.focus({preventScroll: true});
}
draw();
