import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { PeerStore } from '../../../../src/fleet/peers/stored-peers.ts';
import { silentLog } from '../../../../src/platform/log.ts';

it('reads no address that each machine has from the stored peers, and keeps their names', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-peers-'));
  const path = join(folder, 'peers.json');
  const local = [
    '127.0.0.1:1',
    '169.254.1.1:1',
    '0.0.0.0:1',
    '[::1]:1',
    '[fe80::1]:1',
    '[::]:1',
    '[::ffff:127.0.0.1]:1',
  ];
  const peers = [...local, '10.0.0.4:9777', '[fd00::4]:9777'].map((address, at) => ({ name: `worker-${at}`, address }));
  writeFileSync(path, JSON.stringify({ version: 1, peers }));
  const loaded = await new PeerStore(path, silentLog).load(new AbortController().signal);
  rmSync(folder, { recursive: true });
  expect(loaded.map(({ name }) => name)).toEqual(peers.map(({ name }) => name));
  expect(loaded.flatMap(({ address }) => address ?? [])).toEqual(['10.0.0.4:9777', '[fd00::4]:9777']);
});
