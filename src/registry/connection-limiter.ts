import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { RegistryError } from './route.ts';

/** The user, for example `uid 0`, or undefined to refuse. Called before a byte is read. */
export type Admit = (socket: Socket) => Promise<string | undefined>;

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

/** INVARIANT: nothing is read from a connection before its user is known. */
export class ConnectionLimiter {
  private readonly outside = new Set<Socket>();
  private readonly byUser = new Map<string, number>();
  private waiting = 0;
  private inside = 0;
  private refusing = 0;

  /** @param onEnter gets each admitted connection, from which nothing was read */
  constructor(
    private readonly admit: Admit,
    private readonly onEnter: (socket: Socket) => void,
  ) {}

  /** `socket` must be paused. */
  async accept(socket: Socket): Promise<void> {
    socket.on('error', () => undefined); // a reset by the other end
    if (this.waiting >= WAITING) {
      socket.resetAndDestroy();
      return;
    }
    this.outside.add(socket);
    this.waiting += 1;
    const user = await this.admit(socket).catch(() => undefined);
    this.waiting -= 1;
    if (socket.destroyed || socket.remoteAddress === undefined) {
      this.outside.delete(socket);
      socket.destroy();
    } else if (user === undefined) this.refuse(socket, 403, DENIED);
    else if (!this.hasRoom(user)) this.refuse(socket, 503, TOO_MANY);
    else this.enter(socket, user);
  }

  /** Drops every connection that is not admitted yet or is being refused. */
  close(): void {
    for (const socket of this.outside) socket.destroy();
  }

  private hasRoom(user: string): boolean {
    const ofUser = this.byUser.get(user) ?? 0;
    return ofUser < RESERVED || (ofUser < PER_USER && this.inside < ALL_USERS);
  }

  private enter(socket: Socket, user: string): void {
    this.outside.delete(socket);
    this.inside += 1;
    this.byUser.set(user, (this.byUser.get(user) ?? 0) + 1);
    socket.once('close', () => {
      this.inside -= 1;
      const remaining = (this.byUser.get(user) ?? 1) - 1;
      if (remaining === 0) this.byUser.delete(user);
      else this.byUser.set(user, remaining);
    });
    this.onEnter(socket);
  }

  /** A person at a terminal reads the reason. A reset leaves no state in the kernel. */
  private refuse(socket: Socket, status: number, error: RegistryError): void {
    socket.once('close', () => this.outside.delete(socket));
    if (this.refusing >= REFUSALS) {
      socket.resetAndDestroy();
      return;
    }
    this.refusing += 1;
    const timer = setTimeout(() => socket.resetAndDestroy(), REFUSAL_MS);
    socket.once('close', () => {
      clearTimeout(timer);
      this.refusing -= 1;
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
}
