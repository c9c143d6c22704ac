import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, credentials, Metadata, type ServiceDefinition } from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';

/** Largest message either way. kubelet uses the same limit for CRI. */
const MESSAGE_LIMIT_BYTES = 16 * 1024 * 1024;

/** Without `timeoutMs` there is no deadline. `headers`: gRPC metadata. */
interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface GrpcClientOptions {
  readonly socketPath: string;
  /** Relative to the proto root. */
  readonly protoFile: string;
  /** Default: the `proto/` directory of this package. */
  readonly protoRoot?: string | undefined;
}

/** Connects at the first call, and reconnects at most 2 s after the socket is back. */
export class GrpcClient {
  private readonly definition: PackageDefinition;
  private readonly protoFile: string;
  private readonly client: Client;

  constructor({ socketPath, protoFile, protoRoot = findProtoRoot() }: GrpcClientOptions) {
    this.protoFile = protoFile;
    this.definition = definitionOf(protoRoot, protoFile);
    this.client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MESSAGE_LIMIT_BYTES,
      'grpc.max_send_message_length': MESSAGE_LIMIT_BYTES,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 2_000,
      'grpc.enable_http_proxy': 0,
    });
  }

  /** Rejects with the unchanged `ServiceError`. An abort also cancels the call at the server. */
  call(service: string, method: string, request: object, options: CallOptions): Promise<unknown> {
    const { path, requestSerialize, responseDeserialize } = this.rpcOf(service, method);
    const { signal } = options;
    const { metadata, deadline } = wireOptions(options);
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const call = this.client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
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

  /** Yields at the consumer's pace. Errors, deadline and abort are those of {@link call}. */
  async *stream(service: string, method: string, request: object, options: CallOptions): AsyncGenerator<unknown> {
    const { path, requestSerialize, responseDeserialize } = this.rpcOf(service, method);
    const { signal } = options;
    signal.throwIfAborted();
    const { metadata, deadline } = wireOptions(options);
    const call = this.client.makeServerStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
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

  close(): void {
    this.client.close();
  }

  private rpcOf(service: string, method: string): ServiceDefinition[string] {
    const rpc = (this.definition[service] as ServiceDefinition | undefined)?.[method];
    if (rpc === undefined) throw new TypeError(`${this.protoFile} has no ${service}/${method}`);
    return rpc;
  }
}

/** Above this module, for source files and for the packed program. @throws Error */
export function findProtoRoot(): string {
  for (let directory = dirname(fileURLToPath(import.meta.url)); ; directory = dirname(directory)) {
    const candidate = join(directory, 'proto');
    if (existsSync(join(candidate, 'runtime/v1/api.proto'))) return candidate;
    if (directory === dirname(directory)) throw new Error(`no proto/runtime/v1/api.proto above ${import.meta.url}`);
  }
}

/**
 * The definitions by path. Reading takes longer than most calls, and an absent runtime gets a new
 * client each time.
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

function wireOptions({ timeoutMs, headers = {} }: CallOptions) {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return { metadata, deadline: timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs } };
}
