import { join } from 'node:path';
import { Client, credentials, Metadata, type ServiceDefinition } from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { findProtoRoot } from './proto-root.ts';

/** Largest message either way. kubelet uses the same limit for CRI. */
const MESSAGE_LIMIT_BYTES = 16 * 1024 * 1024;

/** Without `timeoutMs` there is no deadline. `headers`: gRPC metadata. */
interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface GrpcClient {
  /** Rejects with the unchanged `ServiceError`. An abort also cancels the call at the server. */
  call(service: string, method: string, request: object, options: CallOptions): Promise<unknown>;
  /** At the consumer's pace, and until its end. Errors, deadline and abort as with {@link call}. */
  stream(service: string, method: string, request: object, options: CallOptions): AsyncIterable<unknown>;
  close(): void;
}

export interface GrpcClientOptions {
  readonly socketPath: string;
  /** Relative to the proto root. */
  readonly protoFile: string;
  /** Default: the `proto/` directory of this package. */
  readonly protoRoot?: string;
}

/** Connects at the first call, and reconnects at most 2 s after the socket is back. */
export function createGrpcClient({
  socketPath,
  protoFile,
  protoRoot = findProtoRoot(),
}: GrpcClientOptions): GrpcClient {
  const definition = definitionOf(protoRoot, protoFile);
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': MESSAGE_LIMIT_BYTES,
    'grpc.max_send_message_length': MESSAGE_LIMIT_BYTES,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2_000,
    'grpc.enable_http_proxy': 0,
  });
  const rpcOf = (service: string, method: string) => {
    const rpc = (definition[service] as ServiceDefinition | undefined)?.[method];
    if (rpc === undefined) throw new TypeError(`${protoFile} has no ${service}/${method}`);
    return rpc;
  };
  return {
    close: () => client.close(),
    call: (service, method, request, options) => unary(client, rpcOf(service, method), request, options),
    stream: (service, method, request, options) => serverStream(client, rpcOf(service, method), request, options),
  };
}

/**
 * By path. Reading takes longer than most calls, and an absent runtime gets a new client each time.
 */
const definitions = new Map<string, PackageDefinition>();

function definitionOf(protoRoot: string, protoFile: string): PackageDefinition {
  const path = join(protoRoot, protoFile);
  const known = definitions.get(path);
  if (known !== undefined) return known;
  const definition = loadSync(path, { includeDirs: [protoRoot], longs: Number, enums: String, defaults: true });
  definitions.set(path, definition);
  return definition;
}

function unary(
  client: Client,
  rpc: ServiceDefinition[string],
  request: object,
  { signal, ...options }: CallOptions,
): Promise<unknown> {
  const { metadata, deadline } = wireOptions(options);
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const call = client.makeUnaryRequest(
      rpc.path,
      rpc.requestSerialize,
      rpc.responseDeserialize,
      request,
      metadata,
      deadline,
      (error, response) => {
        signal.removeEventListener('abort', cancel);
        if (error === null) resolve(response);
        else reject(error);
      },
    );
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
  });
}

async function* serverStream(
  client: Client,
  rpc: ServiceDefinition[string],
  request: object,
  { signal, ...options }: CallOptions,
): AsyncGenerator<unknown> {
  signal.throwIfAborted();
  const { metadata, deadline } = wireOptions(options);
  const call = client.makeServerStreamRequest(
    rpc.path,
    rpc.requestSerialize,
    rpc.responseDeserialize,
    request,
    metadata,
    deadline,
  );
  const cancel = () => call.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    yield* call;
  } finally {
    signal.removeEventListener('abort', cancel);
    call.on('error', () => undefined); // what comes of the cancelling
    call.cancel();
  }
}

function wireOptions({ timeoutMs, headers = {} }: Pick<CallOptions, 'timeoutMs' | 'headers'>) {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return { metadata, deadline: timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs } };
}
