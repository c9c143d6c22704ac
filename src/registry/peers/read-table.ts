import { closeSync, openSync, readSync } from 'node:fs';
import { setImmediate as immediate } from 'node:timers/promises';
import type { TcpTable } from './tcp-table.ts';

const PIECE_BYTES = 64 * 1024;
/** Pieces between which nothing else runs; the kernel makes each of about 4 KiB. */
const PIECES_A_TURN = 64;

/**
 * A table of /proc in pieces of whole lines. The kernel writes each piece when it is read, so that
 * reading never waits: another thread would add the way there and back for each piece.
 *
 * @throws Error when it can't be read; `tcp6` is not there on a kernel without IPv6.
 */
export async function* readTable(table: TcpTable): AsyncGenerator<string> {
  const file = openSync(table, 'r');
  try {
    let count = 0;
    for (const lines of wholeLines(piecesOf(file))) {
      yield lines;
      count += 1;
      if (count % PIECES_A_TURN === 0) await immediate();
    }
  } finally {
    closeSync(file);
  }
}

function* piecesOf(file: number): Generator<string> {
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  for (let length = readSync(file, piece); length > 0; length = readSync(file, piece)) {
    yield piece.toString('latin1', 0, length);
  }
}

/**
 * The pieces of a text, each cut back to whole lines; what is cut off begins the next. A last line
 * that is not ended is left out.
 */
export function* wholeLines(pieces: Iterable<string>): Generator<string> {
  let rest = '';
  for (const piece of pieces) {
    const text = rest + piece;
    const end = text.lastIndexOf('\n') + 1;
    yield text.slice(0, end);
    rest = text.slice(end);
  }
}
