import * as v from 'valibot';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/floor-set.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { FloorRecordStore, FloorStore } from '../../ports/state.ts';
import { createDamagedFile, readSealed, writeSealed } from './sealed-file.ts';

const schema = v.object({
  sequences: v.array(v.tuple([v.string(), v.number()])),
  newestCreated: v.number(),
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
  const content = await readSealed(path);
  const own = content.kind === 'read' ? parse(content.value) : undefined;
  const recorded = parseText(record.floorRecord());
  const areLost = own === undefined && isStateLost;
  const loaded = higherFloors(higherFloors(own ?? NO_FLOORS, recorded ?? NO_FLOORS), { ...NO_FLOORS, areLost });
  const isDamaged = content.kind !== 'absent' && own === undefined;
  const damaged = isDamaged ? createDamagedFile(path, now) : undefined;
  const save = async (floors: Floors, signal: AbortSignal) => {
    signal.throwIfAborted();
    const document = { ...floors, sequences: [...floors.sequences] };
    await damaged?.setAside();
    // Once a damaged file is renamed, another one must follow in its place.
    await writeSealed(path, document, damaged === undefined ? signal : NEVER_ABORTED);
    record.setFloorRecord(JSON.stringify(document));
  };
  const isWhole = own !== undefined && recorded !== undefined;
  const reason = content.kind === 'damaged' ? content.reason : 'its content is not what stickpin writes';
  const damage = damaged === undefined ? undefined : `${reason}; it is kept as ${damaged.aside}`;
  return { floors: { load: () => loaded, isWhole: () => isWhole, save }, damage };
}

function parse(value: unknown): Floors | undefined {
  const parsed = v.safeParse(schema, value);
  return parsed.success ? { ...parsed.output, sequences: new Map(parsed.output.sequences) } : undefined;
}

function parseText(text: string | undefined): Floors | undefined {
  if (text === undefined) return undefined;
  try {
    return parse(JSON.parse(text));
  } catch {
    return undefined; // the file and the bundles have the floors too
  }
}
