import { readFileSync } from 'node:fs';
import { Environment, type ParseResult } from '@marcbachmann/cel-js';
import { parseAllDocuments } from 'yaml';

interface Expression {
  readonly name: string;
  readonly expression: string;
}

interface Validation {
  readonly expression: string;
  readonly message?: string;
  readonly messageExpression?: string;
}

interface PolicyDocument {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly matchConditions: readonly Expression[];
    readonly variables: readonly Expression[];
    readonly validations: readonly Validation[];
  };
}

/** What a request changes. */
export interface AdmissionRequest {
  readonly object: object;
  /** Null for a creation. */
  readonly oldObject: object | null;
  /** Default: the request is about no object of a namespace. */
  readonly namespaceObject?: object;
}

const NO_PARAMS = 'failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction';

const environment = new Environment({ unlistedVariablesAreDyn: true });

/**
 * A ValidatingAdmissionPolicy as the API server evaluates it, for each object of `paramKind`:
 * conditions, the variables, as they are used, and the validations.
 */
export class AdmissionPolicy {
  private constructor(private readonly document: PolicyDocument) {}

  static read(file: string, name: string): AdmissionPolicy {
    const found = readManifests(file).find(
      ({ kind, metadata }) => kind === 'ValidatingAdmissionPolicy' && metadata.name === name,
    );
    if (found === undefined) throw new Error(`${file} has no policy ${name}`);
    return new AdmissionPolicy(found as unknown as PolicyDocument);
  }

  /** The message of the first refusal; undefined when the request passes. */
  refusal(request: AdmissionRequest, params: readonly object[]): string | undefined {
    const { matchConditions, validations } = this.document.spec;
    // Before the conditions: without an object of `paramKind` nothing is judged.
    if (params.length === 0) return NO_PARAMS;
    if (!matchConditions.every(({ expression }) => evaluate(expression, { ...request }))) return undefined;
    for (const one of params) {
      const scope = this.scope(request, one);
      const failed = validations.find(({ expression }) => evaluate(expression, scope) !== true);
      if (failed !== undefined) return this.messageOf(failed, scope);
    }
    return undefined;
  }

  private messageOf({ message, messageExpression }: Validation, scope: Record<string, unknown>): string {
    return messageExpression === undefined ? String(message) : String(evaluate(messageExpression, scope));
  }

  private scope(request: AdmissionRequest, params: object): Record<string, unknown> {
    const variables: Record<string, unknown> = {};
    const scope = { ...request, params, variables };
    // Each uses those before it. As in Kubernetes, an error counts only where its variable is used.
    for (const { name, expression } of this.document.spec.variables)
      Object.defineProperty(variables, name, { enumerable: true, get: () => evaluate(expression, scope) });
    return scope;
  }
}

export function readManifests(file: string) {
  return parseAllDocuments(readFileSync(file, 'utf8')).map(
    (one) => one.toJS() as Omit<PolicyDocument, 'spec'> & { spec: unknown },
  );
}

const parsed = new Map<string, ParseResult>();

function evaluate(expression: string, scope: Record<string, unknown>): unknown {
  const program = parsed.get(expression) ?? environment.parse(expression);
  parsed.set(expression, program);
  return program(scope);
}
