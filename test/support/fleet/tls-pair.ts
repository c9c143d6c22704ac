import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { byKubelet, IdentityKeeper } from '../../../src/fleet/identity/identity.ts';
import { callPeer, type KnownConnection, TlsGate } from '../../../src/fleet/identity/tls-ends.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { createRecordingLog, type RecordingLog } from '../recording-log.ts';

/** A node that is called, and what it saw. */
export interface CalledNode {
  readonly port: number;
  readonly keeper: IdentityKeeper;
  readonly log: RecordingLog;
  /** Nodes whose connection was taken, in order. */
  readonly known: readonly string[];
  /** Cause and reason of each connection that was not. */
  readonly refused: readonly { readonly cause: string; readonly reason: string }[];
  /** Bytes that came over connections that were taken. */
  readonly received: readonly Buffer[];
  close(): Promise<void>;
}

/** The identity of the files below `root`, read once. */
export async function identityOf(root: string, log = createRecordingLog()): Promise<IdentityKeeper> {
  const keeper = new IdentityKeeper({
    way: byKubelet({ kubeconfig: 'auto', client_ca: 'auto' }, root),
    clock: systemClock,
    log,
  });
  await keeper.refresh(new AbortController().signal);
  return keeper;
}

/** Listens on loopback with the identity of the files below `root`; answers `hello`. */
export async function startCalledNode(root: string): Promise<CalledNode> {
  const log = createRecordingLog();
  const keeper = await identityOf(root, log);
  const known: string[] = [];
  const refused: { cause: string; reason: string }[] = [];
  const received: Buffer[] = [];
  const sockets = new Set<Socket>();
  const gate = new TlsGate({
    identity: () => keeper.current(),
    clock: systemClock,
    onKnown: ({ socket, node }) => {
      known.push(node);
      socket.on('data', (chunk) => received.push(chunk));
      socket.resume();
      socket.write('hello');
    },
    onRefused: (_address, verdict) => refused.push(verdict),
  });
  const server: Server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    gate.accept(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    keeper,
    log,
    known,
    refused,
    received,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Calls a node of this machine. */
export async function call(port: number, keeper: IdentityKeeper, ...expected: string[]): Promise<KnownConnection> {
  const identity = keeper.current();
  if (identity === undefined) throw new Error('no identity');
  const to = { endpoint: { host: '127.0.0.1', port }, identity, expected, clock: systemClock };
  return callPeer(to, new AbortController().signal);
}
