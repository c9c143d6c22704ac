import { existsSync } from 'node:fs';
import { until } from '../until.ts';
import type { Qmp } from './qmp.ts';

const timeoutMs = 300_000;

/**
 * Stops the processors and writes memory and devices to `file`, as a migration to another host
 * does. The disk's image is whole then, too. The machine does not go on: end its QEMU.
 *
 * @throws Error with QEMU's words when something in the machine can't be saved, as a 9p folder that
 * is mounted.
 */
export async function saveState(qmp: Qmp, file: string): Promise<void> {
  await qmp.execute('stop');
  await qmp.execute('migrate-set-parameters', { 'max-bandwidth': 16 * 1024 ** 3 });
  const partial = `${file}.partial`;
  await migrated(qmp, 'migrate', `exec:cat > '${partial}' && mv '${partial}' '${file}'`);
  // QEMU is done when it has written everything; cat may not be.
  await until(`${file} to be whole`, async () => existsSync(file), { timeoutMs });
}

/**
 * Continues the machine that `file` holds, in a QEMU with the same devices that was started with
 * `-incoming defer`.
 */
export async function restoreState(qmp: Qmp, file: string): Promise<void> {
  await migrated(qmp, 'migrate-incoming', `exec:cat '${file}'`);
  await qmp.execute('cont');
}

async function migrated(qmp: Qmp, command: 'migrate' | 'migrate-incoming', uri: string): Promise<void> {
  await qmp.execute('migrate-set-capabilities', { capabilities: [{ capability: 'events', state: true }] });
  const isOver = ({ status }: Readonly<Record<string, unknown>>) => status === 'completed' || status === 'failed';
  const [{ data }] = await Promise.all([qmp.nextEvent('MIGRATION', isOver, timeoutMs), qmp.execute(command, { uri })]);
  if (data.status === 'completed') return;
  const { 'error-desc': reason } = (await qmp.execute('query-migrate')) as { 'error-desc'?: string };
  throw new Error(`QMP ${command} ${uri} failed: ${reason}`);
}
