import { readFileSync } from 'node:fs';

/** SQLite file format, "The Write-Ahead Log": sizes in bytes. */
const HEADER = 32;
const FRAME_HEADER = 24;
const MAGIC = 0x377f0682;

/**
 * The damage of a write-ahead log, as a phrase. Undefined when SQLite will read the whole log.
 * SQLite treats a frame with a wrong checksum as the end of the log, without an error: all later
 * commits are lost.
 *
 * A frame belongs to this log when it has the salts of the header. Frames of an earlier log may
 * follow after the end; they are ignored. So are frames of a transaction that failed, as on a full
 * disk: none of them ends a transaction. The last commit before a power cut may look damaged too.
 * It was not on the disk yet, so nothing depended on it.
 */
export function walDamage(path: string): string | undefined {
  const log = read(path);
  if (log === undefined || log.length <= HEADER + FRAME_HEADER) return undefined;
  const magic = log.readUInt32BE(0);
  if ((magic & 0xfffffffe) >>> 0 !== MAGIC) return 'its header is damaged';
  const isBigEndian = (magic & 1) === 1;
  let sums = checksum(log.subarray(0, 24), [0, 0], isBigEndian);
  if (!isEqual(sums, log, 24)) return 'its header is damaged';
  const pageSize = log.readUInt32BE(8) === 1 ? 65_536 : log.readUInt32BE(8);
  const size = FRAME_HEADER + pageSize;
  let at = HEADER;
  for (; at + size <= log.length; at += size) {
    if (!saltsMatch(log, at).every(Boolean)) break;
    const next = checksum(
      log.subarray(at + FRAME_HEADER, at + size),
      checksum(log.subarray(at, at + 8), sums, isBigEndian),
      isBigEndian,
    );
    if (!isEqual(next, log, at + 16)) break;
    sums = next;
  }
  for (let later = at; later + FRAME_HEADER <= log.length; later += size) {
    if (endsTransaction(log, later) && hasSalts(log, later)) return `it is damaged from byte ${at} on`;
  }
  return undefined;
}

function read(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined; // SQLite will report why it can't be read
  }
}

type Sums = readonly [number, number];

function checksum(bytes: Buffer, [first, second]: Sums, isBigEndian: boolean): Sums {
  let [one, two] = [first, second];
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    one = (one + (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + two) >>> 0;
    two = (two + (isBigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + one) >>> 0;
  }
  return [one, two];
}

function isEqual([one, two]: Sums, log: Buffer, at: number): boolean {
  return log.readUInt32BE(at) === one && log.readUInt32BE(at + 4) === two;
}

function saltsMatch(log: Buffer, at: number): readonly boolean[] {
  return [0, 4].map((offset) => log.readUInt32BE(at + 8 + offset) === log.readUInt32BE(16 + offset));
}

/** A frame of this log. Where only one of two salts matches, the other one is damaged. */
function hasSalts(log: Buffer, at: number): boolean {
  return saltsMatch(log, at).some(Boolean);
}

/** Only the last frame of a transaction has the size of the database after it. */
function endsTransaction(log: Buffer, at: number): boolean {
  return log.readUInt32BE(at + 4) !== 0;
}
