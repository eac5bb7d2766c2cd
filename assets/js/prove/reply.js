// What the server answered, as page elements: sentences, verdicts, tables. Text by textContent only.
const TONES = new Set(['good', 'bad', 'open', 'info']);

// A sentence with a mark: {text, tone}; tone is good, bad, open (nothing can be said) or info.
function sentenceNode(given, extra = '') {
  if (!given) return null;
  const tone = TONES.has(given.tone) ? given.tone : 'info';
  return make('p', {class: `pv-say ${tone} ${extra}`}, given.mark ? make('b', {}, given.mark) : null, given.mark ? ' ' : null, given.text);
}

function verdictBox() {
  const node = make('div', {class: 'pv-verdict', role: 'status', 'aria-live': 'polite'});
  return {
    node,
    say(...sentences) { node.setAttribute('role', 'status'); node.replaceChildren(...sentences.map((one, i) => sentenceNode(one, i ? 'second' : '')).filter(Boolean)); },
    fail(text) { node.setAttribute('role', 'alert'); node.replaceChildren(sentenceNode({text, tone: 'bad'})); },
  };
}

// Facts about a rule: mark, what it does, why it is not lossless, source, who shipped it.
function ruleFacts(rule) {
  const lines = [make('p', {}, make('b', {class: `pv-kind ${rule.kind}`}, rule.mark), ' ', rule.does)];
  if (rule.why) lines.push(make('p', {}, rule.why));
  if (rule.shipped) lines.push(make('p', {class: 'pv-fine'}, label('op_shipped'), ' ', linked(rule.shipped)));
  lines.push(make('p', {class: 'pv-fine'}, rule.source));
  return lines;
}

// Text whose https addresses are links.
function linked(text) {
  return text.split(/(https:[^\s;,；，]+)/).map((part) =>
    part.startsWith('https:') ? make('a', {href: part, target: '_blank', rel: 'noopener noreferrer'}, part.replace('https://', '')) : part);
}

// A table from {head, rows, caption, words}; the first column names the row, `words` are columns of text.
function tableNode(table) {
  const kind = (i) => (table.words?.includes(i) ? 'words' : null);
  const row = (cells) => make('tr', {}, cells.map((cell, i) => (i ? make('td', {class: kind(i)}, linked(String(cell))) : make('th', {scope: 'row'}, String(cell)))));
  return make('div', {class: 'pv-scroll', tabindex: 0, role: 'region', 'aria-label': table.caption || table.head[0]},
    make('table', {class: 'pv-table'}, table.caption ? make('caption', {}, table.caption) : null,
      make('thead', {}, make('tr', {}, table.head.map((cell, i) => make('th', {scope: 'col', class: kind(i)}, cell)))),
      make('tbody', {}, table.rows.map(row))));
}

const foldNode = (title, ...body) => make('details', {class: 'pv-fold'}, make('summary', {}, title), make('div', {class: 'pv-fold-body'}, body));

// Under the figure: contributions per cell, the other tests, and the numbers to type in.
function moreBox(apply) {
  const results = make('div', {class: 'pv-results'}, make('p', {class: 'pv-fine'}, label('op_more_empty')));
  const fields = ['p', 'q'].map((name) => make('input', {class: 'op-text', type: 'text', inputmode: 'decimal', spellcheck: 'false', 'aria-label': label('op_numbers_of', {name}), 'data-numbers': name}));
  const button = make('button', {type: 'button', class: 'op-btn', 'data-apply': ''}, label('op_apply'));
  const send = () => apply(fields[0].value, fields[1].value);
  button.addEventListener('click', send);
  for (const field of fields) field.addEventListener('keydown', (event) => { if (event.key === 'Enter') send(); });
  const typed = make('div', {class: 'op-typed'}, fields.map((field, i) => make('label', {class: 'op-label'}, label('op_numbers_of', {name: 'pq'[i]}), field)), button);
  const node = foldNode(label('op_more'), results, make('h4', {}, label('op_numbers')), make('p', {class: 'pv-fine'}, label('op_numbers_hint')), typed);
  return {
    node,
    clear() { results.replaceChildren(make('p', {class: 'pv-fine'}, label('op_more_empty'))); },
    fill(reply, tokens) {
      const rows = (reply.cells || []).map((cell, i) => [tokens[i], ...cell]);
      results.replaceChildren(
        ...(rows.length ? [tableNode({caption: label('op_cells'), head: ['token', 'expected', 'observed', 'control', 'share'].map((key) => label(`op_col_${key}`)), rows})] : []),
        ...(reply.more || []).map((one) => sentenceNode(one)));
    },
    numbers(p, q) {
      const text = (law) => law.map((x) => String(Number(x.toPrecision(6)))).join(', ');
      if (!fields.includes(document.activeElement)) { fields[0].value = text(p); fields[1].value = text(q); }
    },
  };
}

const LEGEND = ['want', 'line', 'drawn'];
function outcomeLegend(words = 'op_key') {
  const keys = words === 'op_key' ? LEGEND : ['want', 'drawn'];
  return make('div', {class: 'op-legend'}, keys.map((key) => make('span', {}, make('i', {class: `op-key ${key}`}), label(`${words}_${key}`))));
}
