// The page skeleton: built once per mount.
const STATES = ['accepted', 'rejected', 'untested', 'corrected', 'bonus', 'plain'];
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const KEYS = [['space', 'Space'], ['step', '← →'], ['round', '↑ ↓'], ['ends', 'Home End'], ['pin', 'Enter'], ['unpin', 'Esc'], ['help', '?']];

function toggle(name, text, title) {
  const input = make('input', {type: 'checkbox', class: 'sw', 'data-sw': name});
  ui[name] = input;
  return make('label', {class: 'switch', title}, input, make('span', {class: 'knob', 'aria-hidden': 'true'}), make('span', {}, text));
}

function transportNode() {
  ui.play = iconButton('play', label('play'), 'play');
  ui.play.classList.add('primary');
  ui.scrub = make('input', {type: 'range', min: 0, max: 0, step: 1, value: 0, class: 'scrub', 'aria-label': label('scrub')});
  ui.readout = make('output', {class: 'readout'}, '–');
  ui.speed = make('select', {class: 'speed', 'aria-label': label('speed'), title: label('speed')},
    SPEEDS.map((speed) => make('option', {value: speed, selected: speed === 1}, speed === 0.25 ? label('slow') : `${speed}×`)));
  ui.help = make('button', {type: 'button', class: 'btn icon', 'data-do': 'help', 'aria-label': label('keys'), title: label('keys'), 'aria-expanded': 'false'}, '?');
  return make('div', {class: 'bar', role: 'group', 'aria-label': label('transport')},
    make('div', {class: 'buttons'}, iconButton('first', label('first'), 'first'), iconButton('prev', label('prev'), 'prev'), ui.play, iconButton('next', label('next'), 'next'), iconButton('last', label('last'), 'last')),
    make('div', {class: 'scrub-box'}, ui.scrub, make('span', {class: 'readout-box'}, label('round'), ' ', ui.readout)),
    make('div', {class: 'options'}, ui.speed, toggle('staged', label('substeps'), label('substeps_help')), toggle('guessing', label('guess_first'), label('guess_help')), ui.help));
}

function stagesNode() {
  ui.stages = make('ol', {class: 'stages', 'aria-label': label('stages')},
    ['draft', 'verify', 'coin', 'emit'].map((stage) => make('li', {'data-stage': stage, 'aria-current': 'false', title: label(`stage_${stage}_help`)}, label(`stage_${stage}`))));
  return ui.stages;
}

function keysNode() {
  ui.keys = make('dl', {class: 'keys', hidden: true}, KEYS.map(([name, keys]) => [make('dt', {}, keys.split(' ').map((key) => make('kbd', {}, key))), make('dd', {}, label(`key_${name}`))]));
  return ui.keys;
}

function legendNode() {
  return make('div', {class: 'legend', 'aria-label': label('legend')},
    STATES.map((state) => make('span', {class: 'key', title: label(`state_${state}_help`)}, make('span', {class: `tok ${state}`, 'aria-hidden': 'true'}, label('sample')), label(`state_${state}`))));
}

function stripNode() {
  ui.prompt = make('div', {class: 'prompt-slot'});
  ui.rounds = make('div', {class: 'rounds-slot', role: 'listbox', 'aria-label': label('strip'), 'aria-orientation': 'horizontal'});
  ui.end = make('div', {class: 'strip-end', hidden: true});
  ui.strip = make('div', {class: 'strip'}, ui.prompt, ui.rounds, ui.end);
  return ui.strip;
}

function outputNode() {
  ui.outputBefore = make('span', {class: 'before'});
  ui.outputNow = make('span', {class: 'now'});
  ui.output = make('div', {class: 'output', tabindex: 0, role: 'region', 'aria-label': label('output')}, ui.outputBefore, ui.outputNow);
  return make('div', {class: 'output-box'}, make('div', {class: 'eyebrow'}, label('output')), ui.output);
}

function cardNode() {
  ui.cardHead = make('div', {class: 'card-top'});
  ui.verdict = make('div', {class: 'verdict'});
  ui.chart = make('div', {class: 'chart-slot'});
  ui.raw = make('div', {class: 'raw-slot'});
  ui.card = make('section', {class: 'card', 'aria-label': label('card')}, ui.cardHead, make('div', {class: 'card-grid'}, ui.verdict, ui.chart), ui.raw);
  return ui.card;
}

function buildLayout() {
  ui.root = element.querySelector('.sp-root');
  ui.badge = make('span', {class: 'badge run-badge'});
  ui.meta = make('span', {class: 'meta'});
  ui.banner = make('div', {class: 'banner', role: 'status', hidden: true});
  ui.folds = make('div', {class: 'folds'}, foldNodes());
  const save = (name) => make('button', {type: 'button', class: 'btn', 'data-do': `save-${name}`}, icon('save'), label(`save_${name}`));
  ui.root.replaceChildren(
    make('div', {class: 'top'}, ui.badge, ui.meta), ui.banner, transportNode(), keysNode(), stagesNode(), stripNode(), legendNode(), outputNode(), cardNode(), ui.folds,
    make('div', {class: 'exports'}, save('json'), save('csv')));
}

function paintHeader() {
  const spec = store.trace.spec, facts = [];
  if (spec.method) facts.push([label('method'), spec.method]);
  if (spec.target) facts.push([label('target'), spec.target.name]);
  const drafting = store.drafting || {kind: 'draft_model'};
  if (drafting.kind === 'head') facts.push([drafting.label, drafting.name]);
  else if (drafting.kind === 'draft_model' && spec.drafts?.length) facts.push([label('draft'), spec.drafts.map((draft) => draft.name).join(', ')]);
  if (spec.rule) facts.push([label('rule'), spec.rule]);
  if (spec.method) facts.push([label('temperature_short'), spec.sampling.temperature ?? 1], [label('seed'), spec.seed ?? 0]);
  ui.meta.replaceChildren(...facts.map(([name, value]) => make('span', {class: 'fact'}, make('i', {}, name), ' ', String(value))));
  ui.badge.textContent = store.badge || '';
  ui.badge.hidden = !store.badge;
  const warnings = store.warnings || store.trace.warnings || [];
  const banner = [store.incomplete && !store.done ? label('incomplete') : store.incomplete ? label('stays_incomplete') : '', store.banner, ...warnings].filter(Boolean).join(' ');
  ui.banner.textContent = banner;
  ui.banner.hidden = !banner;
  ui.root.classList.toggle('live', Boolean(store.live && !store.done));
  element.toggleAttribute('data-incomplete', store.incomplete);
  paintEnd();
}

// Under the last round: why the run ended.
function paintEnd() {
  const last = store.rounds[store.rounds.length - 1];
  const reason = last?.raw.stop_reason || (store.stopped ? 'cancelled' : '');
  ui.end.hidden = !store.done || !reason;
  ui.end.textContent = reason ? label('ended', {reason: label(`stop_${reason}`)}) : '';
}
