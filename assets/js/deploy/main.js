// Tab "Deploy": which engine has which method; for engineers the configuration and two tools.
function mountDeploy(element, options, call) {
  const config = configCard(options, call);
  const tools = make('div', {class: 'dp-tools'}, config.node, lintCard(options, call), metricsCard(options, call));
  const toggle = engineerSwitch((on) => { tools.hidden = !on; });
  const table = supportTable(options, (method, engine) => {
    toggle.set(true);
    config.choose(method, engine);
    config.node.scrollIntoView({block: 'nearest', behavior: reducedMotion() ? 'auto' : 'smooth'});
  });
  tools.hidden = !toggle.box.checked;
  element.append(make('div', {class: 'dp-top'}, toggle.node, make('p', {class: 'pv-fine'}, label('dp_switch_hint'))), table, tools);
  element.dataset.ready = '';
}
