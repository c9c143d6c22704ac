import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consoleText } from '../../../src/domain/report/console-text.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { BrowserSession, cockpitNeeds } from '../../support/cockpit/browser-session.ts';
import { stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';
import { have } from '../../support/requirements.ts';

const IMAGES = ['etcd', 'apiserver', 'scheduler', 'controller', 'proxy', 'dns', 'console', 'registry', 'router'];
const LOADED = 3;
const GIB = 1024 ** 3;

let node: FakeNode;

/** A node whose stick has a newer release, of which some images are loaded. */
beforeAll(async () => {
  const images = Object.fromEntries(IMAGES.map((name) => [name, [name]]));
  const layers = Object.fromEntries(IMAGES.map((name) => [name, { sizeBytes: GIB }]));
  const before = verified({ version: '4.13.6', sequence: 6, images: { etcd: ['etcd-before'] } });
  node = createFakeNode([stored(before, { readyAt: 1, activatedAt: 2, provenAt: 3 })]);
  for (const { reference } of before.contents.images) node.runtime.images.set(reference, reference);
  const { onPull } = node.runtime;
  let pulls = 0;
  node.runtime.onPull = async (reference, signal) => {
    pulls += 1;
    if (pulls <= LOADED + 1) return onPull(reference, signal);
    await new Promise((_, refuse) => signal.addEventListener('abort', refuse));
  };
  await node.start();
  node.plug('sdb1', verified({ images, layers }));
  await node.clock.advance(2_000);
});
afterAll(() => node.stop());

/** `npm run pictures` writes docs/screen.svg and docs/cockpit.png, which README.md shows. */
describe('the pictures of README.md', () => {
  it('show the screen of a node', async () => {
    const lines = consoleText(node.engine.report() ?? expect.unreachable()).split('\n');
    expect(lines.join('\n')).toContain(`Preloading ocp 4.13.7 from the stick: ${LOADED}/${IMAGES.length} images`);
    await expect(svgOf(lines)).toMatchFileSnapshot('../../../docs/screen.svg');
  });

  describe.runIf(have('root', 'dbus-daemon', ...cockpitNeeds))('and the page', () => {
    let api: ApiOnBus;
    let session: BrowserSession;

    beforeAll(async () => {
      // The runtime is a fake, and called so.
      const runtime = { name: 'cri-o 1.31.0', reachable: true };
      api = await startApiOnBus({}, () => ({ ...(node.engine.report() ?? expect.unreachable()), runtime }));
      session = await BrowserSession.open({ address: api.address });
    });
    afterAll(async () => {
      await session?.[Symbol.asyncDispose]();
      await api?.[Symbol.asyncDispose]();
    });

    it('in Cockpit', async () => {
      await session.resize(1_000, 640);
      await session.shows(/LEAVE THE STICK IN/);
      await session.picture('cockpit');
      expect(await session.findings()).toEqual([]);
    });
  });
});

const COLUMNS = 80;
const [WIDTH, HEIGHT] = [9, 18];

function svgOf(lines: readonly string[]): string {
  const escaped = (line: string) => line.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const texts = lines.map((line, at) => `  <text x="${WIDTH}" y="${(at + 2) * HEIGHT}">${escaped(line)}</text>\n`);
  const [width, height] = [(COLUMNS + 2) * WIDTH, (lines.length + 2) * HEIGHT];
  const style = `font: ${HEIGHT - 3}px monospace; white-space: pre; fill: #eee`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
  <title>The screen of a node while a release is loaded from a stick</title>
  <rect width="${width}" height="${height}" fill="#111"/>
  <g style="${style}">
${texts.join('')}  </g>
</svg>
`;
}
