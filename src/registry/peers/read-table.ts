import { closeSync, openSync, readSync } from 'node:fs';
import { setImmediate as immediate } from 'node:timers/promises';
import type { TcpTable } from './tcp-table.ts';

const PIECE_BYTES = 64 * 1024;
/**
 * Number of pieces that are read without yielding to the event loop. The kernel returns about 4 KiB
 * for each.
 */
const PIECES_A_TURN = 64;

/**
 * Reads a table of /proc in pieces of whole lines. The read is synchronous: the kernel makes each
 * piece on demand and never blocks, and a thread would add two switches for each piece.
 *
 * @throws Error when it can't be read. A kernel without IPv6 has no `tcp6`
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
 * Cuts pieces of a text to whole lines; the cut part starts the next piece. A last line without a
 * newline is dropped.
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
