// The card of one token: verdict, the coin on its ruler, the bars, and the laws before processing.
const RAW_ROWS = 8;

function headLine(item, phase) {
  const chip = make('span', {class: tokenClass({...item, small: false}, phase === 'done' ? 'done' : 'draft')});
  paintToken(chip, item.runs);
  const round = store.rounds[item.round], place = [label('round_n', {n: item.round + 1})];
  if (item.node !== 'next') place.push(label(round.chain ? 'draft_n_of' : 'node_n_of', {n: item.node + 1, total: round.size}));
  place.push(label('position_n', {n: item.position}));
  const state = phase === 'done' ? label(`state_${item.state}`) : label('state_drafted');
  const head = make('div', {class: 'card-head'}, chip, make('strong', {class: 'card-state'}, state), make('span', {class: 'card-place'}, place.join(' · ')));
  head.append(...evidenceNotes(round, item).map((text) => make('span', {class: 'note'}, text)));
  if (round.raw.near_tie && item.node === 'next') head.append(make('span', {class: 'note', title: label('near_tie_help')}, label('near_tie')));
  if (view.pinned && item === view.focus) head.append(iconButton('unpin', label('unpin'), 'unpin'));
  return head;
}

// min(1, p / q) with its terms linked to the bars.
function formulaLine(item, phase) {
  const flip = item.flip;
  if (!flip || phase === 'draft') return null;
  const kind = testKind(item), hide = phase !== 'done';
  const term = (name, text) => make('span', {class: `term ${name}`, 'data-term': name, tabindex: -1}, text);
  const p = term('target', `${label('target')} p = ${prob(flip.target_prob)}`), q = term('draft', `${label('draft')} q = ${prob(flip.draft_prob)}`);
  if (hide) return make('p', {class: 'formula'}, p, ' ', q);
  const result = make('b', {class: 'term result'}, percent(flip.accept_prob));
  if (kind === 'ratio' || kind === 'one_hot') {
    const ratio = flip.draft_prob > 0 ? flip.target_prob / flip.draft_prob : Infinity;
    return make('p', {class: 'formula'}, label('accept_prob'), ' = min(1, ', p, ' / ', q, `) = min(1, ${ratioText(ratio)}) = `, result);
  }
  if (kind === 'match') return make('p', {class: 'formula'}, label('accept_prob'), ' = ', p, ' = ', result);
  return make('p', {class: 'formula'}, p, ' · ', q, ' · ', label('accept_prob_rule'), ' = ', result);
}

const ratioText = (ratio) => (ratio >= 100 ? '>100' : ratio >= 0.095 || ratio === 0 ? ratio.toFixed(2) : prob(ratio));

function lawsTable(item) {
  const slice = item.slice, rawP = slice?.raw_target || [], rawQ = slice?.raw_draft || [];
  if (!rawP.length && !rawQ.length) return null;
  const order = slice.tokens.map((_, i) => i).sort((a, b) => Math.max(rawP[b] || 0, slice.target[b]) - Math.max(rawP[a] || 0, slice.target[a])).slice(0, RAW_ROWS);
  const heads = ['token', ...(rawP.length ? ['target_before', 'target_after'] : []), ...(rawQ.length && slice.draft?.length ? ['draft_before', 'draft_after'] : [])];
  const table = make('table', {class: 'laws'}, make('thead', {}, make('tr', {}, heads.map((name) => make('th', {scope: 'col'}, label(name))))));
  const body = make('tbody');
  for (const i of order) {
    const cells = [make('th', {scope: 'row', class: 'name'}, tokenName(slice.tokens[i], item.before, 18))];
    const pair = (before, after) => cells.push(make('td', {}, prob(before)), make('td', {class: after === 0 ? 'gone' : null}, after === 0 ? label('removed') : prob(after)));
    if (rawP.length) pair(rawP[i], slice.target[i]);
    if (rawQ.length && slice.draft?.length) pair(rawQ[i], slice.draft[i]);
    body.append(make('tr', {class: slice.tokens[i] === item.token ? 'is-token' : null}, cells));
  }
  table.append(body);
  return make('details', {class: 'raw', 'data-fold': 'raw', open: view.rawOpen || null},
    make('summary', {}, label('raw_title')), make('p', {class: 'hint'}, samplingText()), table);
}

function samplingText() {
  const s = store.trace.spec.sampling;
  const facts = [`${label('temperature')} ${s.temperature ?? 1}`, `top-k ${s.top_k || label('off')}`, `top-p ${s.top_p ?? 1}`];
  if (s.min_p) facts.push(`min-p ${s.min_p}`);
  return facts.join(' · ');
}

function chartPart(item, phase) {
  const data = chartData(item, phase);
  if (!data) return make('p', {class: 'hint'}, label('no_laws'));
  const modes = make('div', {class: 'modes', role: 'group', 'aria-label': label('chart_mode')},
    ['bars', 'overlay'].map((mode) => make('button', {type: 'button', class: 'btn small', 'data-do': `mode-${mode}`, 'aria-pressed': String(view.mode === mode)}, label(`mode_${mode}`))));
  const more = data.rows.length > TOP_ROWS && make('button', {type: 'button', class: 'btn small', 'data-do': 'more'}, label(view.more ? 'fewer' : 'more', {n: data.rows.length}));
  const both = data.drafted && data.knowsTarget, alone = data.knowsTarget ? data.restTarget : data.restDraft;
  const rest = alone > 0.0005 || (both && data.restDraft > 0.0005) ? make('p', {class: 'hint'}, label(both ? 'rest_both' : 'rest_one', {p: prob(alone), q: prob(data.restDraft)})) : null;
  return [modes, chartLegend(data), drawChart(item, data), rest, more || null];
}

/* Draw the card. Asked for from below it, the page scrolls by as much as the card grew or shrank, so
   that nothing moves under the pointer. */
function drawCard() {
  const before = view.below ? ui.folds.getBoundingClientRect().top : 0;
  paintCard();
  if (view.below) scrollBy(0, ui.folds.getBoundingClientRect().top - before);
}

function paintCard() {
  const item = shownItem();
  if (!item) return;
  let phase = phaseOf(item);
  if (phase === 'hidden') phase = 'draft';
  if (phase === 'done' && awaitsGuess(item)) phase = 'verify';
  const asks = awaitsGuess(item) && phase === 'verify';
  const known = item.slice && (phase !== 'draft' || item.slice.draft?.length || item.slice.deterministic);
  const step = !view.hover && item.round === view.round ? currentStep() : null, round = store.rounds[item.round];
  const asksText = () => label('v_verified', {x: quoted(item.token, item.before)});
  const sentence = step?.grow ? growSentence(round, step) : asks ? asksText() : verdictSentence(item, phase);
  const verdict = [make('p', {class: 'sentence'}, sentence), formulaLine(item, phase)];
  if (step?.grow) verdict.push(make('button', {type: 'button', class: 'btn small', 'data-do': 'show-tree'}, label('grow_show')));
  if (asks) verdict.push(guessForm(item));
  else if (item.flip && phase === 'done') {
    verdict.push(guessResult(item), item.flip.drawn_token === undefined ? drawRuler(item.flip) : drawPair(item));
  }
  if (item.slice?.deterministic && item.node !== 'next') verdict.push(make('p', {class: 'hint'}, label('deterministic')));
  const silent = () => make('p', {class: 'hint'}, label(item.flip || item.node === 'next' ? 'no_laws' : 'no_laws_untested'));
  refill(ui.cardHead, headLine(item, phase));
  refill(ui.verdict, verdict);
  refill(ui.chart, known && !(phase === 'draft' && item.node === 'next') ? chartPart(item, phase) : silent());
  refill(ui.raw, phase === 'done' ? lawsTable(item) : null);
  ui.card.dataset.k = keyOf(item);
  ui.card.classList.toggle('preview', Boolean(view.hover));
}

const refill = (slot, ...children) => slot.replaceChildren(...children.flat(3).filter(Boolean));
