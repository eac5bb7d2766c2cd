// Rows of bars: laws that can be dragged, and what comes out of them. Needs player/dom.js.
const STEPS = {ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1};
const TOPS = [0.2, 0.4, 0.6, 0.8, 1];

const countText = (n) => n.toLocaleString('en-US');
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const sumOf = (values) => values.reduce((total, x) => total + x, 0);
const topFor = (...laws) => TOPS.find((top) => top >= 1.08 * Math.max(...laws.flat())) || 1;

// A law with one bar moved: the others keep their proportions and share what is left.
function withBar(law, index, value) {
  const wanted = clamp(value, 0, 1), rest = sumOf(law) - law[index], others = law.length - 1;
  return law.map((x, i) => (i === index ? wanted : rest > 1e-12 ? (x * (1 - wanted)) / rest : (1 - wanted) / others));
}

function setHeight(node, value, top) { node.style.height = `${100 * clamp(value / top, 0, 1)}%`; }

// A row of bars under a name; `col(token)` makes the column of one token.
function barRow(kind, name, note, tokens, col) {
  const cols = tokens.map(col);
  const row = make('div', {class: `op-row ${kind}`, role: 'group', 'aria-label': name},
    make('div', {class: 'op-name'}, make('b', {}, name), note ? make('span', {}, note) : null),
    make('div', {class: 'op-cols'}, cols));
  return {row, cols};
}

/* Bars that are a law. `changed(law, done)` is called on every move, and with done = true when the
   bar is let go or a key was pressed. Returns {row, set(law, top)}. */
function lawBars(kind, name, note, tokens, changed) {
  let law = tokens.map(() => 0), top = 1, held = null;
  const {row, cols} = barRow(kind, name, note, tokens, (token) =>
    make('div', {class: 'op-col'},
      make('div', {class: 'op-track grab', tabindex: 0, role: 'slider', 'aria-orientation': 'vertical',
        'aria-valuemin': 0, 'aria-valuemax': 1, 'aria-label': `${name}, ${token}`},
      make('div', {class: 'op-fill'}), make('div', {class: 'op-handle', 'aria-hidden': 'true'})),
      make('div', {class: 'op-value'}), make('div', {class: 'op-token'}, token)));

  function paint() {
    cols.forEach((col, i) => {
      const track = col.firstChild, text = prob(law[i]);
      setHeight(track.firstChild, law[i], top);
      track.lastChild.style.bottom = `${100 * clamp(law[i] / top, 0, 1)}%`;
      track.setAttribute('aria-valuenow', law[i].toFixed(4));
      track.setAttribute('aria-valuetext', text);
      col.children[1].textContent = text;
    });
  }
  function move(index, value, done) {
    law = withBar(law, index, value);
    paint();
    changed(law, done);
  }
  const indexOf = (target) => cols.findIndex((col) => col.contains(target));
  function follow(event) {
    const box = cols[held].firstChild.getBoundingClientRect();
    move(held, (top * (box.bottom - event.clientY)) / box.height, false);
  }
  row.addEventListener('pointerdown', (event) => {
    const track = event.target.closest('.grab');
    if (!track || event.button) return;
    held = indexOf(track);
    track.setPointerCapture(event.pointerId);
    track.focus({preventScroll: true});
    event.preventDefault();
    follow(event);
  });
  row.addEventListener('pointermove', (event) => { if (held !== null) follow(event); });
  for (const end of ['pointerup', 'pointercancel']) {
    row.addEventListener(end, () => { if (held !== null) { held = null; changed(law, true); } });
  }
  row.addEventListener('keydown', (event) => {
    const index = indexOf(event.target), now = law[index];
    const value = event.key === 'Home' ? 0 : event.key === 'End' ? 1 : event.key in STEPS ? now + STEPS[event.key] : null;
    if (index < 0 || value === null || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    move(index, value, true);
  });
  return {row, set(values, newTop) { law = values; top = newTop; paint(); }};
}

// min(p, q) with what p has beyond it on top: together they are p.
function sharedBars(tokens, name, note) {
  const {row, cols} = barRow('shared', name, note, tokens, (token) =>
    make('div', {class: 'op-col'},
      make('div', {class: 'op-track'}, make('div', {class: 'op-fill excess'}), make('div', {class: 'op-fill overlap'})),
      make('div', {class: 'op-value'}), make('div', {class: 'op-token'}, token)));
  return {row, set(p, q, top) {
    cols.forEach((col, i) => {
      const both = Math.min(p[i], q[i]);
      setHeight(col.firstChild.firstChild, p[i], top);
      setHeight(col.firstChild.lastChild, both, top);
      col.children[1].textContent = prob(both);
    });
  }};
}

/* What comes out: target as an outline, the rule's exact law as a line, draws as filled bars.
   `set({target, law, counts, top})`; without draws only outline and line are there. With `exact: true` the
   counts are shares already. */
function outcomeBars(kind, name, tokens) {
  const {row, cols} = barRow(`outcome ${kind}`, name, '', tokens, (token) =>
    make('div', {class: 'op-col'},
      make('div', {class: 'op-track'}, make('div', {class: 'op-fill drawn'}), make('div', {class: 'op-fill want'}), make('div', {class: 'op-line'})),
      make('div', {class: 'op-value'}), make('div', {class: 'op-token'}, token)));
  const note = make('span', {class: 'op-count'});
  row.firstChild.append(note);
  return {row, note, set({target, law, counts, top, exact = false}) {
    const total = counts?.length ? sumOf(counts) : 0;
    row.classList.toggle('empty', !total);
    cols.forEach((col, i) => {
      const [drawn, want, line] = col.firstChild.children, share = exact ? counts[i] : total ? counts[i] / total : 0;
      setHeight(drawn, share, top);
      setHeight(want, target[i], top);
      line.style.bottom = `${100 * clamp(law[i] / top, 0, 1)}%`;
      col.classList.toggle('off', Math.abs(law[i] - target[i]) > 5e-4);
      const shown = total ? share : law[i];
      col.children[1].textContent = prob(shown);
      col.setAttribute('title', label(exact ? 'out_hover' : 'op_hover', {token: tokens[i], p: prob(target[i]), law: prob(law[i]), counts: total ? counts[i] : 0}));
    });
  }};
}
