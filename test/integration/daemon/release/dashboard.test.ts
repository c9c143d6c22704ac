import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const PAGE = 'docs/metrics.md';
const folder = folderForAll();

interface Dashboard {
  readonly schemaVersion: number;
  readonly panels: readonly { readonly id: number; readonly targets: readonly { readonly expr: string }[] }[];
}

/** With a value for each variable of Grafana. */
function plainExpression(expr: string): string {
  return expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$(?:instance|stream)/g, '.*');
}

describe.runIf(have('promtool'))('the dashboard of the documentation', () => {
  const text = readFileSync('docs/examples/grafana-stickpin.json', 'utf8');
  const dashboard = JSON.parse(text) as Dashboard;
  const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

  it('has the version of its schema that the documentation names, and panels with an id each', () => {
    expect(readFileSync(PAGE, 'utf8')).toContain(`schema version ${dashboard.schemaVersion}`);
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { targets } of dashboard.panels) expect(targets.length).toBeGreaterThan(0);
  });

  it('has expressions that promtool accepts', () => {
    const rules = expressions.map((expr, at) => ({ record: `panel:${at}`, expr: plainExpression(expr) }));
    const file = join(folder, 'rules.json');
    // JSON is YAML.
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    const said = execFileSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
    expect(said).toContain(`${expressions.length} rules found`);
    expect(expressions.map(plainExpression).join('\n')).not.toContain('$');
  });

  it('names metrics and labels that the daemon writes', () => {
    const rows = [...readFileSync(PAGE, 'utf8').matchAll(/^\| `(stickpin_\w+)` \| \w+ \|([^|]*)\|/gm)];
    const labels = new Map(rows.map(([, name = '', list = '']) => [name, list.match(/\w+/g) ?? []]));
    const selectors = [...text.matchAll(/(stickpin_\w+)(?:\{([^}]*)\})?/g)];
    expect(selectors.length).toBeGreaterThan(expressions.length);
    for (const [, metric = '', matchers = ''] of selectors) {
      expect([...labels.keys()]).toContain(metric);
      const used = [...matchers.matchAll(/(\w+)(?:=~|=|!=|!~)/g)].map(([, label]) => label);
      const known = [...(labels.get(metric) ?? []), 'instance'];
      expect(known).toEqual(expect.arrayContaining(used));
    }
  });
});
