import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { RegistryError } from './respond.ts';

/** What the door needs. */
export interface DoorOptions {
  /**
   * Who is at the other end, as a name that limits count for, as `uid 0`; undefined: may not come
   * in. Asked once for each connection, before a byte is read.
   */
  readonly admit: (socket: Socket) => Promise<string | undefined>;
  /** Takes a connection that may be served; nothing was read from it. */
  readonly enter: (socket: Socket) => void;
}

/** The door of the registry: who gets in, and how many at once. */
export interface Door {
  /** Takes a connection that was just accepted, paused. */
  knock(socket: Socket): void;
  /** Drops every connection that is not in yet or being refused. */
  close(): void;
}

/** Connections that wait to be admitted; each takes some KiB. One more is reset. */
const WAITING = 8_192;
/** Connections of one user. A runtime that pulls several images at once has some dozens. */
const PER_USER = 256;
/** Connections of all users. */
const IN_ALL = 1_024;
/** So many connections a user gets whatever the others have. */
const RESERVED = 64;
/**
 * Refusals that are written out at the same time; any other connection that is refused is reset.
 */
const REFUSALS = 8;
/** How long a client may take to read why it was refused. */
const REFUSAL_MS = 1_000;

const DENIED: RegistryError = {
  code: 'DENIED',
  message: 'only the container runtime of this node may pull here',
};
const TOO_MANY: RegistryError = { code: 'TOOMANYREQUESTS', message: 'there are too many connections already' };

interface House {
  readonly options: DoorOptions;
  /** Connections that are not in. */
  readonly outside: Set<Socket>;
  readonly byUser: Map<string, number>;
  waiting: number;
  inside: number;
  refusing: number;
}

/**
 * Makes a {@link Door}.
 *
 * INVARIANT: nothing is read from a connection before its user is known, so that what others send
 * stays in the kernel's buffers.
 */
export function createDoor(options: DoorOptions): Door {
  const house: House = { options, outside: new Set(), byUser: new Map(), waiting: 0, inside: 0, refusing: 0 };
  return {
    knock: (socket) => void receive(socket, house),
    close: () => {
      for (const socket of house.outside) socket.destroy();
    },
  };
}

async function receive(socket: Socket, house: House): Promise<void> {
  socket.on('error', ignore); // a reset by the other end
  if (house.waiting >= WAITING) {
    socket.resetAndDestroy();
    return;
  }
  house.outside.add(socket);
  house.waiting += 1;
  const user = await house.options.admit(socket).catch(() => undefined);
  house.waiting -= 1;
  if (isGone(socket)) drop(socket, house);
  else if (user === undefined) refuse(socket, 403, DENIED, house);
  else if (!hasRoom(user, house)) refuse(socket, 503, TOO_MANY, house);
  else letIn(socket, user, house);
}

/** Closed by us, or reset by the other end before anybody asked who that is. */
function isGone(socket: Socket): boolean {
  return socket.destroyed || socket.remoteAddress === undefined;
}

function drop(socket: Socket, { outside }: House): void {
  outside.delete(socket);
  socket.destroy();
}

function hasRoom(user: string, { byUser, inside }: House): boolean {
  const own = byUser.get(user) ?? 0;
  return own < RESERVED || (own < PER_USER && inside < IN_ALL);
}

function letIn(socket: Socket, user: string, house: House): void {
  house.outside.delete(socket);
  house.inside += 1;
  house.byUser.set(user, (house.byUser.get(user) ?? 0) + 1);
  socket.once('close', () => {
    house.inside -= 1;
    const left = (house.byUser.get(user) ?? 1) - 1;
    if (left === 0) house.byUser.delete(user);
    else house.byUser.set(user, left);
  });
  house.options.enter(socket);
}

/**
 * Tells a person at a terminal why; a crowd is reset, which leaves nothing behind in the kernel
 * either.
 */
function refuse(socket: Socket, status: number, error: RegistryError, house: House): void {
  socket.once('close', () => house.outside.delete(socket));
  if (house.refusing >= REFUSALS) {
    socket.resetAndDestroy();
    return;
  }
  house.refusing += 1;
  const timer = setTimeout(() => socket.resetAndDestroy(), REFUSAL_MS);
  socket.once('close', () => {
    clearTimeout(timer);
    house.refusing -= 1;
  });
  const body = JSON.stringify({ errors: [error] });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.resume(); // what the client sends is thrown away, so that closing does not reset what it has not read yet
}

function ignore(): void {}
