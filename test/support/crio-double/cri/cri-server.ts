import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import {
  status as grpcStatus,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceClientConstructor,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { CriError } from './cri-error.ts';

/**
 * A unary call: takes the request message, is aborted when the caller cancels or its deadline
 * passes.
 */
export type UnaryHandler = (request: never, signal: AbortSignal) => Promise<object>;

/** What is served on the one socket. */
export interface CriServerOptions {
  readonly protoFile: string;
  /** The Unix socket that clients know; mode 0660. */
  readonly listen: string;
  /** Directory for the inner socket, on which gRPC really listens. */
  readonly stateDirectory: string;
  readonly imageService: Readonly<Record<string, UnaryHandler>>;
  readonly runtimeService: Readonly<Record<string, UnaryHandler>>;
  /** `GET <path>` answers with this text; any other path with 404. */
  readonly pages: Readonly<Record<string, { readonly contentType: string; readonly text: () => string }>>;
}

/** A server that listens. */
export interface CriServer {
  /**
   * Takes no more calls, waits for those that run, however long, then ends every connection. CRI-O
   * does so at SIGTERM.
   */
  close(): Promise<void>;
}

const maxMessageBytes = 16 * 1024 * 1024;

/**
 * Serves gRPC and HTTP/1 on one Unix socket, as CRI-O does (docs/runtime-facts.md, fact 6): what a
 * connection's first bytes say decides who gets it.
 *
 * @throws Error when the proto file can't be read or the socket can't be bound.
 */
export async function startCriServer(options: CriServerOptions): Promise<CriServer> {
  const innerPath = join(options.stateDirectory, 'grpc.sock');
  const grpc = createGrpcServer(options);
  rmSync(innerPath, { force: true });
  await bind(grpc, innerPath);
  const http = createHttpServer((request, response) => {
    const page = request.method === 'GET' ? options.pages[request.url ?? ''] : undefined;
    response.writeHead(page ? 200 : 404, { 'Content-Type': page?.contentType ?? 'text/plain; charset=utf-8' });
    response.end(page?.text() ?? '404 page not found\n');
  });
  const open = new Set<Socket>();
  const outer = createServer((socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.once('data', (first) => {
      socket.pause();
      socket.unshift(first);
      if (first.subarray(0, 4).toString() === 'PRI ') relay(socket, innerPath);
      else http.emit('connection', socket);
      process.nextTick(() => socket.resume());
    });
  });
  mkdirSync(dirname(options.listen), { recursive: true });
  rmSync(options.listen, { force: true });
  await listen(outer, options.listen);
  chmodSync(options.listen, 0o660);
  return {
    close: async () => {
      const closed = new Promise((resolve) => outer.close(resolve));
      await new Promise<void>((resolve) => grpc.tryShutdown(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
      rmSync(options.listen, { force: true });
    },
  };
}

function relay(socket: Socket, innerPath: string): void {
  const inner = connect(innerPath);
  inner.on('error', () => socket.destroy());
  inner.once('close', () => socket.destroy());
  socket.once('close', () => inner.destroy());
  socket.pipe(inner).pipe(socket);
}

function createGrpcServer(options: CriServerOptions): Server {
  const definition = loadSync(options.protoFile, { keepCase: true, longs: String, enums: String, defaults: true });
  const loaded = loadPackageDefinition(definition) as unknown as {
    runtime: { v1: Record<'ImageService' | 'RuntimeService', ServiceClientConstructor> };
  };
  const server = new Server({
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
  });
  server.addService(loaded.runtime.v1.ImageService.service, unaryHandlers(options.imageService));
  server.addService(loaded.runtime.v1.RuntimeService.service, unaryHandlers(options.runtimeService));
  return server;
}

function unaryHandlers(service: Readonly<Record<string, UnaryHandler>>) {
  const entries = Object.entries(service).map(([name, handler]) => {
    const unary = (call: ServerUnaryCall<unknown, object>, callback: sendUnaryData<object>) => {
      const controller = new AbortController();
      call.once('cancelled', () => controller.abort());
      handler(call.request as never, controller.signal).then(
        (response) => callback(null, response),
        (error: Error) => {
          const code = error instanceof CriError ? error.code : grpcStatus.UNKNOWN;
          callback({ code, details: error.message });
        },
      );
    };
    return [name, unary] as const;
  });
  return Object.fromEntries(entries);
}

function bind(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    );
  });
}

function listen(server: NetServer, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
}
