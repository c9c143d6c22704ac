import { messageIds } from '../../../src/platform/message-ids.ts';
import { guestNodePath } from '../../e2e/machine/product/guest-node.ts';
import type { Stick } from '../../e2e/machine/qemu/stick.ts';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { BENCH_REGISTRY } from '../bench-runtime.ts';
import type { GuestNode, StickUse } from './guest-node.ts';

/** One way to have everything read from a throttled stick. */
export interface GuestRun extends StickUse {
  readonly wallMs: number;
}

/**
 * A preload by stickpin. `wallMs` counts from the medium being found, which is when it was mounted
 * and its bundle was judged.
 */
export interface GuestPreload extends GuestRun {
  /** When what happened, in milliseconds after the kernel's first word of the stick. */
  readonly sincePlug: {
    readonly attached: number;
    readonly found: number;
    readonly preloading: number;
    readonly firstPulled: number;
    readonly lastPulled: number;
    /** The release is reported as ready. */
    readonly ready: number;
  };
}

const MOUNT_POINT = '/mnt/stick';
const RUN_TIMEOUT_MS = 3_600_000;
const SERVE_AT = '127.0.0.1:5000';

/**
 * `cat` of all blobs of the bundle from a stick that was not read before: what `dd` of the same
 * bytes takes, without the start of a process for each blob, which costs an emulated processor a
 * good part of a second.
 */
export function readBlobs(node: GuestNode, stick: Stick, bytesPerSecond: number): Promise<GuestRun> {
  const command = `cat ${MOUNT_POINT}/stickpin/*/blobs/sha256/* > /dev/null`;
  return byHand(node, stick, bytesPerSecond, () => timed(node, command));
}

/** Pulls over CRI one by one from `stickpin bundle serve`. */
export function pullInGuest(node: GuestNode, stick: Stick, bytesPerSecond: number, bundle: SampleBundle) {
  const { machine, puller } = node;
  return byHand(node, stick, bytesPerSecond, async () => {
    await machine.output(
      `systemd-run --quiet --collect --unit=bench-serve stickpin bundle serve --listen ${SERVE_AT} ${MOUNT_POINT}/stickpin/*`,
    );
    try {
      await machine.untilOutput('the registry', 'journalctl --boot --unit=bench-serve | grep "Serving on"');
      const host = `[host."http://${SERVE_AT}/v2/${BENCH_REGISTRY}"]\ncapabilities = ["pull", "resolve"]\noverride_path = true\n`;
      await machine.putFile(`/etc/containerd/certs.d/${BENCH_REGISTRY}/hosts.toml`, host);
      const references = bundle.contents.images.map(({ reference }) => reference).join(' ');
      const pull = `${guestNodePath} ${puller} /run/containerd/containerd.sock /usr/lib/stickpin/proto ${references}`;
      return Number(await machine.output(pull, { timeoutMs: RUN_TIMEOUT_MS }));
    } finally {
      await machine.run('systemctl stop bench-serve');
    }
  });
}

/** `ctr images import` of a tar on the stick. */
export function importInGuest(node: GuestNode, stick: Stick, bytesPerSecond: number): Promise<GuestRun> {
  const command = `ctr --namespace k8s.io images import ${MOUNT_POINT}/layout.tar > /dev/null`;
  return byHand(node, stick, bytesPerSecond, () => timed(node, command));
}

/**
 * What a person does: plugs the stick in, mounts it, does something with it. Only the last counts.
 */
async function byHand(
  node: GuestNode,
  stick: Stick,
  bytesPerSecond: number,
  work: () => Promise<number>,
): Promise<GuestRun> {
  const { machine } = node;
  await node.startAnew();
  const plugged = await node.plug(stick, bytesPerSecond);
  try {
    await machine.output(`mkdir -p ${MOUNT_POINT} && mount -o ro ${plugged.devicePath} ${MOUNT_POINT}`);
    const before = await node.readOf(plugged);
    const wallMs = await work();
    const after = await node.readOf(plugged);
    return { wallMs, readBytes: after.readBytes - before.readBytes, busyMs: after.busyMs - before.busyMs };
  } finally {
    await machine.run(`umount ${MOUNT_POINT}`);
    await plugged.unplug();
  }
}

/** Runs a command in the guest; returns the milliseconds that it took by the guest's clock. */
async function timed({ machine }: GuestNode, command: string): Promise<number> {
  const both = `began=$(date +%s%N) && (${command}) && echo $(( $(date +%s%N) - began ))`;
  return Number(await machine.output(both, { timeoutMs: RUN_TIMEOUT_MS })) / 1e6;
}

/**
 * Plugs the stick into a node on which stickpin waits for one, and returns when the bundle is
 * ready.
 */
export async function preloadInGuest(node: GuestNode, stick: Stick, bytesPerSecond: number): Promise<GuestPreload> {
  const { machine } = node;
  await node.startAnew();
  await node.startStickpin();
  const plugged = await node.plug(stick, bytesPerSecond);
  try {
    const ready = await machine.until('the bundle to be ready', () => node.readyAt(), { timeoutMs: RUN_TIMEOUT_MS });
    const use = await node.readOf(plugged);
    const journal = await readJournal(node);
    const plug = journal.findLast(({ message }) => message.includes('new SuperSpeed USB device'))?.at ?? Number.NaN;
    const all = (id: string) =>
      journal.filter((entry) => entry.id === id && entry.at > plug).map(({ at }) => at - plug);
    const attached = journal.findLast(({ message }) => message.includes('Attached SCSI removable disk'))?.at;
    const pulled = (await readPulls(node)).filter((at) => at > plug).map((at) => at - plug);
    const found = all(messageIds.mediumFound).at(-1) ?? Number.NaN;
    const sincePlug = {
      attached: (attached ?? Number.NaN) - plug,
      found,
      preloading: all(messageIds.preloadStarted).at(-1) ?? Number.NaN,
      firstPulled: pulled[0] ?? Number.NaN,
      lastPulled: pulled.at(-1) ?? Number.NaN,
      ready: ready - plug,
    };
    return { ...use, wallMs: sincePlug.ready - found, sincePlug };
  } finally {
    await plugged.unplug();
  }
}

interface JournalEntry {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly message: string;
  readonly id: string | undefined;
}

/**
 * When the images were pulled, in milliseconds since the epoch, oldest first: the history has a row
 * for each, the journal has none.
 */
async function readPulls({ machine }: GuestNode): Promise<readonly number[]> {
  const { events } = JSON.parse(await machine.output('stickpin history --json')) as {
    readonly events: readonly { readonly at: string; readonly kind: string }[];
  };
  return events.filter(({ kind }) => kind === 'imagePulled').map(({ at }) => Date.parse(at));
}

/** What kernel and daemon said since the boot, oldest first. */
async function readJournal({ machine }: GuestNode): Promise<readonly JournalEntry[]> {
  const fields = 'MESSAGE,MESSAGE_ID,_SOURCE_REALTIME_TIMESTAMP';
  const lines = await machine.output(
    `journalctl --boot --no-pager --output=json --output-fields=${fields} _TRANSPORT=kernel + _SYSTEMD_UNIT=stickpin.service`,
  );
  return lines.split('\n').map((line) => {
    const entry = JSON.parse(line) as Record<string, string>;
    const at = Number(entry._SOURCE_REALTIME_TIMESTAMP ?? entry.__REALTIME_TIMESTAMP) / 1000;
    return { at, message: String(entry.MESSAGE), id: entry.MESSAGE_ID };
  });
}
