import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { makeSampleBundle } from '../../support/bundles/sample-bundle.ts';
import { markdownTable } from '../markdown-table.ts';
import { layeredImages } from '../preload/layered-images.ts';
import { peakMiBOf, residentMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';

const CLIENTS = 64;
/** How long clients take nothing: every buffer that there is fills meanwhile. */
const HELD_MS = 1_000;
/** Eight images of 68 MiB. */
const IMAGES = { sharedMiB: [4], images: 8, ownMiB: sized(64, 1) };

/** What `stickpin bundle serve --json` says first. */
interface Served {
  readonly listen: string;
  readonly repositories: readonly { readonly paths: readonly string[] }[];
}

/** Prints the memory of `stickpin bundle serve` while 64 clients pull from it at once. */
export async function benchServe(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const bundle = await makeSampleBundle({ dir: join(folder, 'stickpin'), images: layeredImages(IMAGES) });
  const argv = ['dist/cli/main.js', 'bundle', 'serve', bundle.path, '--listen', '127.0.0.1:0', '--json'];
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  try {
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    const { listen, repositories } = JSON.parse(line) as Served;
    const idleMiB = residentMiBOf(child.pid ?? 0);
    const paths = bundle.contents.images.map(({ layers, reference }) => {
      const digest = bundle.contents.layers[layers.at(-1) ?? 0]?.digest;
      const found = repositories.flatMap((one) => one.paths).find((path) => reference.includes(`/${path}@`));
      return `/v2/${found}/blobs/${digest}`;
    });
    const responses = await Promise.all(
      Array.from({ length: CLIENTS }, (_none, at) => get(listen, paths[at % paths.length] ?? '', agent)),
    );
    await delay(HELD_MS);
    const heldMiB = peakMiBOf(child.pid ?? 0);
    for (const response of responses) response.resume();
    await Promise.all(responses.map((response) => once(response, 'end')));
    const cells = [idleMiB, heldMiB, peakMiBOf(child.pid ?? 0)].map((mib) => `${mib.toFixed(0)} MiB`);
    const header = ['clients', 'idle', 'while they take nothing', 'after all blobs were sent', 'aim'];
    print(`\n${markdownTable(header, [[`${CLIENTS}`, ...cells, 'under 150 MiB']])}`);
  } finally {
    agent.destroy();
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function get(listen: string, path: string, agent: Agent): Promise<IncomingMessage> {
  const [host, port] = listen.split(':');
  const asked = request({ host, port, path, agent }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`${path} was answered ${response.statusCode}`);
  return response;
}
