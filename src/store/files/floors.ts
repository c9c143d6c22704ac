import * as v from 'valibot';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/floor-set.ts';
import type { FloorRecordStore, FloorStore } from '../../ports/state.ts';
import { createDamagedFile, readSealed, writeSealed } from './sealed-file.ts';

const schema = v.object({
  sequences: v.array(v.tuple([v.string(), v.number()])),
  newestCreated: v.number(),
  areLost: v.boolean(),
});

/**
 * Floors that were opened. `damage`: why the file that was there could not be used, with where it
 * is put.
 */
export interface OpenedFloors {
  readonly floors: FloorStore;
  readonly damage: string | undefined;
}

/** What {@link openFloors} needs. */
export interface FloorOptions {
  /** `/var/lib/stickpin/floors.json` */
  readonly path: string;
  /** The same record in the database. */
  readonly record: FloorRecordStore;
  /** The database is new in place of one that was lost, or an earlier copy of it. */
  readonly isStateLost: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Opens the floors, which are kept twice: in a file and in the database; the higher value counts.
 * When neither can be read they are lost.
 *
 * INVARIANT: what is saved is in the file before it is in the database, and is the higher of both.
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
  const save = async (floors: Floors) => {
    const document = { ...floors, sequences: [...floors.sequences] };
    await damaged?.setAside();
    await writeSealed(path, document);
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
    return undefined; // the file has it too, and the bundles themselves
  }
}
