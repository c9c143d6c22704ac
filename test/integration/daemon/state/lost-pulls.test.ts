import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { freePort } from '../../../support/free-port.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { loseMirror } from '../../../support/state/lose-state.ts';

describe.runIf(have('root', 'mmdebstrap'))('an activated release whose database is lost', { timeout: 90_000 }, () => {
  let factory: string;
  let node: CrioNode;
  let bundle: SampleBundle;
  let effects: string[];

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    const key = sampleKey('factory-2026');
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    bundle = await makeSampleBundle({ dir: factory, keys: [key] });
    const afterEffect = ({ kind }: { readonly kind: string }) => void effects.push(kind);
    const registry = { listen: `127.0.0.1:${await freePort()}` };
    effects = [];
    node = await createCrioNode({ registry }, {}, { keys: [key], keepsMirrors: true, afterEffect });
    await node.harness.start();
    node.harness.plug(bundle.path);
    await node.harness.until(
      (report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle',
      120_000,
    );
    node.harness.unplug();
    await node.harness.until((report) => report.bundles[0]?.media.length === 0);
    await node.harness.stop();
    const { state_dir: state } = node.harness.settings.paths;
    for (const name of ['state.db', 'state.db-wal']) rmSync(join(state, name), { force: true });
    effects = [];
  });
  afterEach(async () => {
    await node.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  /** Where CRI-O asks for the first image by its tag. */
  function tagUrl(): string {
    const mirrors = readFileSync(join(node.harness.settings.paths.run_dir, 'registries.conf'), 'utf8');
    const [tag = ''] = bundle.contents.images[0]?.tags ?? [];
    const colon = tag.lastIndexOf(':');
    const location = new RegExp(`location = "(127[^"]*/${tag.slice(0, colon)})"`).exec(mirrors)?.[1] ?? '';
    const [host, ...path] = location.split('/');
    return `http://${host}/v2/${path.join('/')}/manifests/${tag.slice(colon + 1)}`;
  }

  /** Asks again and again until `isOver`. Returns each status, as often as it came. */
  async function answers(url: string, isOver: () => boolean): Promise<readonly number[]> {
    const statuses: number[] = [];
    while (!isOver()) {
      const headers = { 'user-agent': 'cri-o/1.36.3' };
      const answer = await fetch(url, { headers }).catch(() => undefined); // not listening yet
      if (answer !== undefined) statuses.push(answer.status);
      await answer?.arrayBuffer();
      await sleep(10);
    }
    return statuses;
  }

  it('is answered by its tags from the first request on, and keeps its mirrors', async () => {
    loseMirror(node.harness.settings.paths.state_dir);
    const before = node.harness.report();
    let isRebuilt = false;
    const asking = answers(tagUrl(), () => isRebuilt);
    await node.harness.start();
    await node.harness.until(
      (report) => report !== before && report.bundles[0]?.phase === 'activated' && report.operation === 'idle',
      120_000,
    );
    await expect.poll(() => effects).toContain('record-soak');
    isRebuilt = true;
    const statuses = await asking;
    expect(statuses.length).toBeGreaterThan(0);
    expect(statuses.every((status) => status === 200)).toBe(true);
    expect(effects).not.toContain('apply-mirrors');
    const lines = node.harness.log.lines.map(({ message }) => message).join('\n');
    expect(lines).toMatch(/What was recorded of ocp 4\.13\.7 was lost and is rebuilt/);
    expect(lines).not.toMatch(/belong to no release/);
  });

  it('is known again before CRI-O answers, as its mirror says', async () => {
    const before = node.harness.report();
    await node.killRuntime();
    await node.harness.start();
    const report = await node.harness.until((now) => now !== before && now.bundles.length > 0);
    expect(report).toMatchObject({ runtime: { reachable: false }, bundles: [{ phase: 'activated' }] });
  });
});
