import * as v from 'valibot';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/pin-ledger.ts';
import type { FloorRecordStore, FloorStore } from '../../ports/state.ts';
import { openSealed } from './sealed-file.ts';

const byStream = v.array(v.tuple([v.string(), v.number()]));
/**
 * `newestCreated` is of any stream, as versions before floors by stream wrote it: it is written for
 * them, and not read, since nobody knows whose it was. The bundles have the times of their streams.
 */
const schema = v.object({
  sequences: byStream,
  newestCreated: v.number(),
  created: v.optional(byStream, []),
  resets: v.optional(byStream, []),
  doubted: v.optional(v.array(v.string()), []),
  areLost: v.boolean(),
});

/**
 * The opened floors. `damage`: why an existing file could not be used, with the path of its copy.
 */
export interface OpenedFloors {
  readonly floors: FloorStore;
  readonly damage: string | undefined;
}

/** The options of {@link openFloors}. */
export interface FloorOptions {
  /** `/var/lib/stickpin/floors.json` */
  readonly path: string;
  /** The same record in the database. */
  readonly record: FloorRecordStore;
  /** Whether the database is a new one after a loss, or an old copy. */
  readonly isStateLost: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Opens the floors, which are stored in a file and in the database. The higher value counts. They
 * are lost when the file can't be used and the database is lost too.
 *
 * INVARIANT: floors are written to the file first, then to the database.
 *
 * @throws AppError `store/read` (`fatal`)
 */
export async function openFloors({ path, record, isStateLost, now }: FloorOptions): Promise<OpenedFloors> {
  const { loaded: own, damage, save: saveFile } = await openSealed(path, now, parse);
  const recorded = parseText(record.floorRecord());
  const areLost = own === undefined && isStateLost;
  const higher = higherFloors(own ?? NO_FLOORS, recorded ?? NO_FLOORS);
  // What an earlier copy of the database says is a lower bound only.
  const doubted = new Set([...(higher.doubted ?? []), ...(areLost ? higher.sequences.keys() : [])]);
  const loaded = { ...higher, areLost: higher.areLost || areLost, ...(doubted.size > 0 && { doubted }) };
  const save = async (floors: Floors, signal: AbortSignal) => {
    const document = documentOf(floors);
    await saveFile(document, signal);
    record.setFloorRecord(JSON.stringify(document));
  };
  const isWhole = own !== undefined && recorded !== undefined;
  return { floors: { load: () => loaded, isWhole: () => isWhole, save }, damage };
}

function documentOf({ sequences, newestCreated, resets = new Map(), doubted = new Set(), areLost }: Floors) {
  return {
    sequences: [...sequences],
    newestCreated: Math.max(0, ...newestCreated.values()),
    created: [...newestCreated],
    resets: [...resets],
    doubted: [...doubted],
    areLost,
  };
}

function parse(value: unknown): Floors | undefined {
  const parsed = v.safeParse(schema, value);
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

function parseText(text: string | undefined): Floors | undefined {
  if (text === undefined) return undefined;
  try {
    return parse(JSON.parse(text));
  } catch {
    return undefined; // the file and the bundles have the floors too
  }
}
