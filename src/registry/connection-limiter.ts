import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { RegistryError } from './route.ts';

export interface LimiterOptions {
  /** The user, for example `uid 0`, or undefined to refuse. Called before a byte is read. */
  readonly admit: (socket: Socket) => Promise<string | undefined>;
  /** Nothing was read from it. */
  readonly enter: (socket: Socket) => void;
}

export interface ConnectionLimiter {
  /** `socket` must be paused. */
  accept(socket: Socket): void;
  /** Drops every connection that is not admitted yet or is being refused. */
  close(): void;
}

/** Connections that wait to be admitted need some KiB each. More are reset. */
const WAITING = 8_192;
/** A runtime that pulls several images in parallel has some dozens. */
const PER_USER = 256;
const ALL_USERS = 1_024;
/** Each user gets these even above the limit of all users. */
const RESERVED = 64;
/** Concurrent refusals with an answer. Others are reset. */
const REFUSALS = 8;
/** How long a client may take to read why it was refused. */
const REFUSAL_MS = 1_000;

const DENIED: RegistryError = {
  code: 'DENIED',
  message: 'only the container runtime of this node may pull here',
};
const TOO_MANY: RegistryError = { code: 'TOOMANYREQUESTS', message: 'there are too many connections already' };

interface Limiter {
  readonly options: LimiterOptions;
  readonly outside: Set<Socket>;
  readonly byUser: Map<string, number>;
  waiting: number;
  inside: number;
  refusing: number;
}

/** INVARIANT: nothing is read from a connection before its user is known. */
export function createConnectionLimiter(options: LimiterOptions): ConnectionLimiter {
  const limiter: Limiter = { options, outside: new Set(), byUser: new Map(), waiting: 0, inside: 0, refusing: 0 };
  return {
    accept: (socket) => void receive(socket, limiter),
    close: () => {
      for (const socket of limiter.outside) socket.destroy();
    },
  };
}

async function receive(socket: Socket, limiter: Limiter): Promise<void> {
  socket.on('error', ignore); // a reset by the other end
  if (limiter.waiting >= WAITING) {
    socket.resetAndDestroy();
    return;
  }
  limiter.outside.add(socket);
  limiter.waiting += 1;
  const user = await limiter.options.admit(socket).catch(() => undefined);
  limiter.waiting -= 1;
  if (isGone(socket)) drop(socket, limiter);
  else if (user === undefined) refuse(socket, 403, DENIED, limiter);
  else if (!hasRoom(user, limiter)) refuse(socket, 503, TOO_MANY, limiter);
  else enter(socket, user, limiter);
}

/** Closed by us, or reset by the other end. */
function isGone(socket: Socket): boolean {
  return socket.destroyed || socket.remoteAddress === undefined;
}

function drop(socket: Socket, { outside }: Limiter): void {
  outside.delete(socket);
  socket.destroy();
}

function hasRoom(user: string, { byUser, inside }: Limiter): boolean {
  const own = byUser.get(user) ?? 0;
  return own < RESERVED || (own < PER_USER && inside < ALL_USERS);
}

function enter(socket: Socket, user: string, limiter: Limiter): void {
  limiter.outside.delete(socket);
  limiter.inside += 1;
  limiter.byUser.set(user, (limiter.byUser.get(user) ?? 0) + 1);
  socket.once('close', () => {
    limiter.inside -= 1;
    const left = (limiter.byUser.get(user) ?? 1) - 1;
    if (left === 0) limiter.byUser.delete(user);
    else limiter.byUser.set(user, left);
  });
  limiter.options.enter(socket);
}

/** With the reason, for a person at a terminal. A reset leaves no state in the kernel. */
function refuse(socket: Socket, status: number, error: RegistryError, limiter: Limiter): void {
  socket.once('close', () => limiter.outside.delete(socket));
  if (limiter.refusing >= REFUSALS) {
    socket.resetAndDestroy();
    return;
  }
  limiter.refusing += 1;
  const timer = setTimeout(() => socket.resetAndDestroy(), REFUSAL_MS);
  socket.once('close', () => {
    clearTimeout(timer);
    limiter.refusing -= 1;
  });
  const body = JSON.stringify({ errors: [error] });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.resume(); // discard what the client sends, because closing with unread bytes would reset the connection before it read the answer
}

function ignore(): void {}
