import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import { keptPause, type Pause } from '../../domain/fleet/pause.ts';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { HOOK_NAMES } from '../../domain/settings/hook-units.ts';
import type { HookLedger, HookRecord } from '../../domain/state/hook.ts';
import type { PastSpeaker } from '../../domain/state/past.ts';
import type { Floors, PinLedger } from '../../domain/state/release-record.ts';
import type { DocumentName } from '../../ports/state.ts';

export function readDocument(database: Database, name: DocumentName): string | undefined {
  return database.prepare<[string], string>('SELECT content FROM document WHERE name = ?').pluck().get(name);
}

/** Call it within a transaction. */
export function writeDocument(database: Database, name: DocumentName, content: string): void {
  const upsert = database.prepare(
    `INSERT INTO document (name, content) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content`,
  );
  upsert.run(name, content);
}

const bundleIdSchema = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const failure = v.variant('kind', [
  v.object({ kind: v.literal('absent') }),
  v.object({ kind: v.literal('not-loaded'), state: v.string() }),
  v.object({ kind: v.literal('active') }),
  v.object({ kind: v.literal('not-signed') }),
  v.object({
    kind: v.literal('ended'),
    job: v.string(),
    result: v.exactOptional(v.string()),
    status: v.exactOptional(v.number()),
  }),
  v.object({ kind: v.literal('unasked'), message: v.string() }),
]);
const hookSchema = v.object({
  hook: v.picklist(HOOK_NAMES),
  unit: v.string(),
  done: v.array(v.tuple([v.string(), v.number()])),
  failure: v.exactOptional(
    v.object({
      bundleId: v.exactOptional(bundleIdSchema),
      medium: v.exactOptional(v.string()),
      why: failure,
      at: v.number(),
    }),
  ),
});

/** A hook that only a later version has is left out. */
export function parseHooks(value: unknown): HookLedger | undefined {
  if (!Array.isArray(value)) return undefined;
  const known = value.filter((one) => v.is(hookSchema, one));
  if (known.length === 0 && value.length > 0) return undefined;
  return new Map(
    known.map(({ hook, done, ...record }): [typeof hook, HookRecord] => [hook, { ...record, done: new Map(done) }]),
  );
}

export function hooksDocument(ledger: HookLedger): v.InferInput<typeof hookSchema>[] {
  return [...ledger].map(([hook, { done, ...record }]) => ({ hook, ...record, done: [...done] }));
}

const references = v.array(v.string());
const pinsSchema = v.object({
  releases: v.array(v.object({ bundleId: bundleIdSchema, name: v.string(), version: v.string(), references })),
  unclaimed: references,
  givenUp: references,
  isDoubted: v.exactOptional(v.boolean()),
});

export function parsePins(value: unknown): PinLedger | undefined {
  const parsed = v.safeParse(pinsSchema, value);
  return parsed.success ? parsed.output : undefined;
}

const byStream = v.array(v.tuple([v.string(), v.number()]));
const floorsSchema = v.object({
  sequences: byStream,
  newestCreated: byStream,
  resets: byStream,
  doubted: v.array(v.string()),
  areLost: v.boolean(),
});

export function floorsDocument({ sequences, newestCreated, resets = new Map(), doubted = new Set(), areLost }: Floors) {
  return {
    sequences: [...sequences],
    newestCreated: [...newestCreated],
    resets: [...resets],
    doubted: [...doubted],
    areLost,
  };
}

export function parseFloors(value: unknown): Floors | undefined {
  const parsed = v.safeParse(floorsSchema, value);
  if (!parsed.success) return undefined;
  const { sequences, newestCreated, resets, doubted, areLost } = parsed.output;
  return {
    sequences: new Map(sequences),
    newestCreated: new Map(newestCreated),
    areLost,
    ...(resets.length > 0 && { resets: new Map(resets) }),
    ...(doubted.length > 0 && { doubted: new Set(doubted) }),
  };
}

const pausesSchema = v.pipe(v.string(), v.parseJson(), v.array(keptPause));

/** None where another version wrote them: other nodes say them again. */
export function parsePauses(text = '[]'): readonly Pause[] {
  const parsed = v.safeParse(pausesSchema, text);
  return parsed.success ? parsed.output : [];
}

/** The row has a checksum, so the content is as it was written. */
export function parseSpeakers(text = '[]'): readonly PastSpeaker[] {
  return JSON.parse(text) as readonly PastSpeaker[];
}
