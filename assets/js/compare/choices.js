// What is raced: pair, prompt, numbers and lanes; read from a link, written to one.
const FIELDS = ['temperature', 'max_new_tokens', 'repeats', 'seed'];

function laneChooser(options, changed) {
  const chosen = new Set();
  const hint = make('p', {class: 'pv-fine', role: 'status', 'aria-live': 'polite'});
  const rows = options.methods.map((method) => {
    const chips = method.lanes.map((lane) => {
      const chip = make('button', {type: 'button', class: `op-chip cp-chip${lane.lossy ? ' lossy' : ''}`, 'data-label': lane.label}, lane.text);
      chip.addEventListener('click', () => toggle(lane.label));
      return chip;
    });
    const why = make('span', {class: 'pv-fine', hidden: true}, label('cp_no_head'));
    const node = make('div', {class: 'cp-method', 'data-method': method.name}, make('b', {title: method.about}, method.title), make('div', {class: 'op-chips'}, chips, why));
    return {method, chips, why, node};
  });
  const extra = make('div', {class: 'op-chips cp-extra'});
  const summary = make('summary', {});
  const node = make('details', {class: 'pv-fold cp-choose'}, summary,
    make('div', {class: 'pv-fold-body'}, make('p', {class: 'pv-fine'}, label('cp_lanes_how', {most: options.most})), grouped(rows.map((row) => [row.node, row.method.group]), 'cp-group'), extra, hint));
  const known = new Map(rows.flatMap((row) => row.chips.map((chip, i) => [row.method.lanes[i].label, [row, chip]])));
  let missing = [];
  function toggle(name) {
    hint.textContent = '';
    if (chosen.has(name)) chosen.delete(name);
    else if (chosen.size < options.most) chosen.add(name);
    else hint.textContent = label('cp_full', {most: options.most});
    paint();
    changed();
  }
  const methodOf = (name) => name.split(/[:/]/)[0];
  const able = (name) => !missing.includes(methodOf(name));
  function paint() {
    for (const [name, [row, chip]] of known) {
      chip.setAttribute('aria-pressed', String(chosen.has(name)));
      chip.disabled = !able(name);
      row.why.hidden = able(name);
    }
    extra.replaceChildren(...[...chosen].filter((name) => !known.has(name)).map((name) => {
      const chip = make('button', {type: 'button', class: 'op-chip cp-chip', 'aria-pressed': 'true'}, name);
      chip.addEventListener('click', () => toggle(name));
      return chip;
    }));
    summary.textContent = label('cp_lanes', {n: chosen.size + 1, most: options.most + 1});
  }
  return {
    node,
    values: () => [...chosen].filter(able),
    set(names) { chosen.clear(); for (const name of names.slice(0, options.most)) chosen.add(name); paint(); },
    setMissing(names) { missing = names; for (const name of [...chosen]) if (!able(name)) chosen.delete(name); paint(); },
  };
}

function raceChoices(options, recordedWanted) {
  const {given, pairs, presets, limits} = options;
  const pair = selectField('pair', label('cp_pair'), pairs.map((each) => [each.name, each.title]), pairChanged);
  const fields = FIELDS.map((name) => inputField(name, label(`cp_${name}`), given[name], {min: limits[name][0], max: limits[name][1], step: name === 'temperature' ? 0.1 : 1}));
  const prompt = make('textarea', {class: 'op-text cp-prompt', 'data-field': 'prompt', rows: 2, maxlength: options.max_prompt, spellcheck: 'false', 'aria-label': label('cp_prompt')});
  const lanes = laneChooser(options, () => {});
  const chips = presets.map((preset) => {
    const chip = make('button', {type: 'button', class: 'op-chip', 'data-preset': preset.name}, preset.title);
    chip.addEventListener('click', () => { prompt.value = preset.prompt; paintPreset(); askRecorded(); });
    return chip;
  });
  prompt.addEventListener('input', paintPreset);
  const presetNow = () => presets.find((each) => each.prompt === prompt.value);
  function paintPreset() { for (const chip of chips) chip.setAttribute('aria-pressed', String(chip.dataset.preset === presetNow()?.name)); }
  const pairNow = () => pairs.find((each) => each.name === pair.select.value);
  function askRecorded() {
    const preset = presetNow();
    if (preset && pairNow().recorded.includes(preset.name)) recordedWanted({pair: pair.select.value, preset: preset.name});
  }
  function pairChanged() { lanes.setMissing(pairNow().missing); askRecorded(); }
  function set(values) {
    if (pairs.some((each) => each.name === values.pair)) pair.select.value = values.pair;
    lanes.setMissing(pairNow().missing);
    lanes.set(values.lanes);
    prompt.value = values.prompt;
    FIELDS.forEach((name, i) => { fields[i].input.value = values[name]; });
    paintPreset();
  }
  const values = () => ({pair: pair.select.value, prompt: prompt.value, lanes: lanes.values(), ...Object.fromEntries(FIELDS.map((name, i) => [name, fields[i].input.value]))});
  const node = make('div', {class: 'pv-controls'},
    make('div', {class: 'cp-presets op-chips', role: 'group', 'aria-label': label('cp_examples')}, chips),
    make('div', {class: 'cp-fields'}, make('label', {class: 'op-label cp-prompt-field'}, label('cp_prompt'), prompt), pair.node, fields.map((each) => each.node)),
    lanes.node);
  return {node, values, set};
}

// The link's keys begin with race_, so that they live beside those of other tabs.
function readLink(given) {
  const query = new URLSearchParams(location.search);
  if (!query.has('race_lanes')) return null;
  const one = (name) => query.get(`race_${name}`) ?? given[name];
  return {
    ...Object.fromEntries(['pair', 'prompt', ...FIELDS].map((name) => [name, one(name)])),
    lanes: query.get('race_lanes').split(',').map((name) => name.trim()).filter(Boolean),
  };
}

function linkOf(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) query.set(`race_${name}`, Array.isArray(value) ? value.join(',') : value);
  return query.toString();
}
