/** One request to the Kubernetes API. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH';
  /** `/api/v1/nodes`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON, which is YAML too. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Default `application/json`. */
  readonly accept?: string;
}
