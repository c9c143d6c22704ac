import { stat } from 'node:fs/promises';
import * as v from 'valibot';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/reason.ts';
import type { ReportedRelease } from '../../domain/release/rebuild.ts';
import { HOOK_NAMES, type HookLedger, type HookRecord } from '../../domain/state/hook.ts';
import type { Floors, PinLedger } from '../../domain/state/release-record.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import type { HookStore } from '../../ports/node.ts';
import type { FloorRecordStore, FloorStore, PinLedgerStore } from '../../ports/state.ts';
import { openSealed } from './sealed-file.ts';

const bundleIdSchema = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const failure = v.variant('kind', [
  v.object({ kind: v.literal('absent') }),
  v.object({ kind: v.literal('not-loaded'), state: v.string() }),
  v.object({ kind: v.literal('active') }),
  v.object({
    kind: v.literal('ended'),
    job: v.string(),
    result: v.exactOptional(v.string()),
    status: v.exactOptional(v.number()),
  }),
  v.object({ kind: v.literal('unasked'), message: v.string() }),
]);
const hooksSchema = v.array(
  v.object({
    hook: v.picklist(HOOK_NAMES),
    unit: v.string(),
    done: v.array(v.tuple([bundleIdSchema, v.number()])),
    failure: v.exactOptional(v.object({ bundleId: bundleIdSchema, why: failure, at: v.number() })),
  }),
);

interface OpenedHookLedger {
  readonly store: HookStore;
  readonly damage: string | undefined;
}

/**
 * A damaged record counts as missing: hooks run for what happens from now on, and `before-activate`
 * runs again for an unfinished activation. The file is renamed before a new one is written.
 * @param path `/var/lib/stickpin/hooks.json`
 * @throws AppError `store/read` (`fatal`)
 */
export async function openHookLedger(path: string, now: number): Promise<OpenedHookLedger> {
  const { loaded, damage, save } = await openSealed(path, now, (value) => {
    const parsed = v.safeParse(hooksSchema, value);
    return parsed.success ? ledgerOf(parsed.output) : undefined;
  });
  const store: HookStore = {
    load: () => loaded ?? new Map(),
    save: (ledger, signal) => save(hooksDocument(ledger), signal),
  };
  return { store, damage };
}

function ledgerOf(document: v.InferOutput<typeof hooksSchema>): HookLedger {
  return new Map(
    document.map(({ hook, done, ...record }): [typeof hook, HookRecord] => [hook, { ...record, done: new Map(done) }]),
  );
}

function hooksDocument(ledger: HookLedger): v.InferInput<typeof hooksSchema> {
  return [...ledger].map(([hook, { done, ...record }]) => ({ hook, ...record, done: [...done] }));
}

const references = v.array(v.string());
const time = v.exactOptional(v.number());
const known = v.object({
  bundleId: bundleIdSchema,
  adoptedAt: v.number(),
  claimedAt: time,
  resetAt: time,
  readyAt: time,
  activationRequestedAt: time,
  activationOverrides: v.exactOptional(v.array(v.picklist(RULE_CODES))),
  activatedAt: time,
  activeAt: time,
  provenAt: time,
  rolledBackAt: time,
  rolledBackReason: v.exactOptional(v.string()),
  cancelled: v.exactOptional(v.object({ at: v.number(), media: v.array(v.string()) })),
  isNotice: v.exactOptional(v.boolean()),
});
const verdict = v.object({
  bundleId: bundleIdSchema,
  verdict: v.picklist(['approved', 'rejected']),
  reason: v.exactOptional(v.string()),
  at: v.number(),
});
const rejectedName = v.object({
  name: v.string(),
  version: v.string(),
  at: v.number(),
  reason: v.exactOptional(v.string()),
});
const pinsSchema = v.object({
  releases: v.array(v.object({ bundleId: bundleIdSchema, name: v.string(), version: v.string(), references })),
  unclaimed: references,
  givenUp: references,
  known: v.exactOptional(v.array(known)),
  verdicts: v.exactOptional(v.array(verdict)),
  rejectedNames: v.exactOptional(v.array(rejectedName)),
  state: v.object({ origin: v.string(), revision: v.number() }),
  stamp: v.number(),
});

interface OpenedPinLedger {
  readonly ledger: PinLedgerStore;
  readonly damage: string | undefined;
}

/**
 * A damaged ledger counts as missing, so that every pin of the runtime is kept. The file is renamed
 * before a new one is written.
 * @param path `/var/lib/stickpin/pins.json`
 * @throws AppError `store/read` (`fatal`)
 */
export async function openPinLedger(path: string, now: number): Promise<OpenedPinLedger> {
  const { loaded, damage, save } = await openSealed<PinLedger>(path, now, (value) => {
    const parsed = v.safeParse(pinsSchema, value);
    return parsed.success ? parsed.output : undefined;
  });
  return { ledger: { load: () => loaded, save }, damage };
}

const byStream = v.array(v.tuple([v.string(), v.number()]));
/** `newestCreated` is for earlier versions, and not read. */
const floorsSchema = v.object({
  sequences: byStream,
  newestCreated: v.number(),
  created: v.optional(byStream, []),
  resets: v.optional(byStream, []),
  doubted: v.optional(v.array(v.string()), []),
  areLost: v.boolean(),
});

interface OpenedFloors {
  readonly floors: FloorStore;
  readonly damage: string | undefined;
}

interface FloorOptions {
  /** `/var/lib/stickpin/floors.json` */
  readonly path: string;
  readonly record: FloorRecordStore;
  /** The database is new after a loss, or an old copy. */
  readonly isStateLost: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The floors are in a file and in the database. The higher value counts. They are lost when both
 * are lost. INVARIANT: floors are written to the file first, then to the database.
 * @throws AppError `store/read` (`fatal`)
 */
export async function openFloors({ path, record, isStateLost, now }: FloorOptions): Promise<OpenedFloors> {
  const { loaded: own, damage, save: saveFile } = await openSealed(path, now, parseFloors);
  const recorded = parseFloorsText(record.floorRecord());
  const areLost = own === undefined && isStateLost;
  const higher = higherFloors(own ?? NO_FLOORS, recorded ?? NO_FLOORS);
  // An earlier copy of the database gives a lower bound only.
  const doubted = new Set([...(higher.doubted ?? []), ...(areLost ? higher.sequences.keys() : [])]);
  const loaded = { ...higher, areLost: higher.areLost || areLost, ...(doubted.size > 0 && { doubted }) };
  const save = async (floors: Floors, signal: AbortSignal) => {
    const document = floorsDocument(floors);
    await saveFile(document, signal);
    record.setFloorRecord(JSON.stringify(document));
  };
  const isWhole = own !== undefined && recorded !== undefined;
  return { floors: { load: () => loaded, isWhole: () => isWhole, save }, damage };
}

function floorsDocument({ sequences, newestCreated, resets = new Map(), doubted = new Set(), areLost }: Floors) {
  return {
    sequences: [...sequences],
    newestCreated: Math.max(0, ...newestCreated.values()),
    created: [...newestCreated],
    resets: [...resets],
    doubted: [...doubted],
    areLost,
  };
}

function parseFloors(value: unknown): Floors | undefined {
  const parsed = v.safeParse(floorsSchema, value);
  if (!parsed.success) return undefined;
  const { sequences, created, resets, doubted, areLost } = parsed.output;
  return {
    sequences: new Map(sequences),
    newestCreated: new Map(created),
    areLost,
    ...(resets.length > 0 && { resets: new Map(resets) }),
    ...(doubted.length > 0 && { doubted: new Set(doubted) }),
  };
}

function parseFloorsText(text: string | undefined): Floors | undefined {
  if (text === undefined) return undefined;
  try {
    return parseFloors(JSON.parse(text));
  } catch {
    return undefined; // the file and the bundles have the floors too
  }
}

/** A status document of a node with 2,000 images is smaller by far. */
const MAX_BYTES = 16 * 1024 * 1024;

const text = v.exactOptional(v.string());
const reportedSchema = v.object({
  bundles: v.pipe(
    v.array(
      v.object({
        bundleId: bundleIdSchema,
        phase: v.string(),
        adoptedAt: text,
        readyAt: text,
        activatedAt: text,
        cancelled: v.exactOptional(v.object({ at: v.string(), media: v.array(v.string()) })),
        conditions: v.exactOptional(
          v.array(
            v.object({ type: v.string(), status: v.string(), reason: v.string(), lastTransitionTime: v.string() }),
          ),
        ),
      }),
    ),
    v.maxLength(1_000),
  ),
});

/** Of an earlier daemon. Empty when it can't be used: it is one of several records. */
export async function readReportedReleases(path: string): Promise<readonly ReportedRelease[]> {
  try {
    if ((await stat(path)).size > MAX_BYTES) return [];
    const parsed = v.safeParse(reportedSchema, JSON.parse((await readIfPresent(path)) ?? ''));
    return parsed.success ? parsed.output.bundles : [];
  } catch {
    return [];
  }
}
